// Checks of the arguments of training, and work on its optimizers and modules.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <lockstep/data/batch_share.h>
#include <lockstep/nn/module.h>
#include <lockstep/optim/optimizer.h>
#include <lockstep/train/batches.h>
#include <lockstep/train/trainer_options.h>

namespace lockstep::train::detail {

/// Throw InvalidArgument.
void check_optimizer(const optim::Optimizer& optimizer, nn::ModuleBase& module, bool has_folder);
void check_loader(const LoaderHandle& training, bool has_folder);
void check_folder(const CheckpointOptions& options);
void check_share(const LoaderHandle& loader, const data::BatchShare& expected);

/// The parameters of all groups.
std::vector<Tensor> parameters_of(const optim::Optimizer& optimizer);
/// Clips by gradient_clip_val and gradient_clip_algorithm.
void clip_gradients(const TrainerOptions& options, const optim::Optimizer& optimizer);

/// Saves the training mode of every module; the destructor restores it in the modules that still exist.
class ModesKept final : nn::Visitor {
 public:
  explicit ModesKept(nn::ModuleBase& module) : module_(module) { module.visit(nn::Path(), *this); }
  ~ModesKept() {
    gives_back_ = true;
    module_.visit(nn::Path(), *this);
  }
  ModesKept(const ModesKept&) = delete;
  ModesKept& operator=(const ModesKept&) = delete;

 private:
  void module(const nn::Path& path, nn::ModuleBase& module) override {
    const auto [mode, is_new] = modes_.emplace(path.str(), module.is_training());
    if (gives_back_ && !is_new) module.set_mode(mode->second);
  }

  nn::ModuleBase& module_;
  bool gives_back_ = false;
  std::map<std::string, bool> modes_;
};

}  // namespace lockstep::train::detail
