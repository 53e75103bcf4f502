// Recovery: the devices that Trainer::fit() trains on, and how it goes on when one of them is lost. For the library.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <lockstep/nn/module.h>
#include <lockstep/optim/optimizer.h>
#include <lockstep/train/trainer_options.h>

namespace lockstep::train::detail {

class LOCKSTEP_API Recovery {
 public:
  Recovery(const TrainerOptions& options, const std::vector<Device>& devices) : options_(options), devices_(devices) {}

  /// Of the present try: after a loss those that are left, and to resume.
  const std::vector<Device>& devices() const noexcept { return devices_; }
  const TrainerOptions& options() const noexcept { return options_; }
  /// What happened before the present try.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

  /// To be called in the handler of an Error, when nothing of the failed try is left. Rethrows unless training is to go
  /// on. What was on lost devices is then elsewhere, without its values.
  void go_on_or_rethrow(nn::ModuleBase& module, std::span<optim::Optimizer* const> optimizers);

 private:
  TrainerOptions options_;
  std::vector<Device> devices_;
  std::vector<std::string> notes_;
};

}  // namespace lockstep::train::detail
