// Recovery: the devices that Trainer::fit() trains on, and how fit() continues when one of them is lost. For the
// library.
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

  /// The devices and options of the current attempt. After a loss: the remaining devices, and resume = true.
  const std::vector<Device>& devices() const noexcept { return devices_; }
  const TrainerOptions& options() const noexcept { return options_; }
  /// The losses of devices before the current attempt.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

  /// Call this in the handler of an Error, after the objects of the failed attempt are destroyed. Rethrows the error,
  /// unless training can continue. Parameters and buffers on lost devices are allocated again on another device; their
  /// values are lost.
  void go_on_or_rethrow(nn::ModuleBase& module, std::span<optim::Optimizer* const> optimizers);

 private:
  TrainerOptions options_;
  std::vector<Device> devices_;
  std::vector<std::string> notes_;
};

}  // namespace lockstep::train::detail
