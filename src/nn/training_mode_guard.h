// TrainingModeGuard: restores the training modes of a module tree.
#pragma once

#include <map>
#include <string>

#include <lockstep/nn/module.h>

namespace lockstep::nn {

/// Saves the training mode of every module; the destructor restores it in the modules that still exist.
class TrainingModeGuard final : Visitor {
 public:
  explicit TrainingModeGuard(ModuleBase& module) : module_(module) { module.visit(Path(), *this); }
  ~TrainingModeGuard() {
    restores_ = true;
    module_.visit(Path(), *this);
  }
  TrainingModeGuard(const TrainingModeGuard&) = delete;
  TrainingModeGuard& operator=(const TrainingModeGuard&) = delete;

 private:
  void module(const Path& path, ModuleBase& module) override {
    const auto [mode, is_new] = modes_.emplace(path.str(), module.is_training());
    if (restores_ && !is_new) module.set_mode(mode->second);
  }

  ModuleBase& module_;
  bool restores_ = false;
  std::map<std::string, bool> modes_;
};

}  // namespace lockstep::nn
