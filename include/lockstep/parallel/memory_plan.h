// How much memory a model's parameters, gradients and optimizer state need on each device, before anything is
// allocated.
#pragma once

#include <array>
#include <cstddef>
#include <iosfwd>

#include <lockstep/nn/module.h>
#include <lockstep/parallel/gradient_buckets.h>
#include <lockstep/parallel/shard.h>

namespace lockstep {

struct MemoryPlanOptions {
  int devices = 1;             ///< Of each process.
  int processes = 1;           ///< That train the model together.
  int state_tensors = 2;       ///< The optimizer's tensors of each parameter: AdamW 2, SGD with momentum 1, without 0.
  BucketOptions buckets = {};  ///< Those of the model.
  bool autocast = false;       ///< Forward runs in an Autocast region.
};

/// Bytes on each device, padding included. Activations, workspace, what a step gathers when these are gone, and the
/// allocator's rounding come on top.
struct MemoryPlan {
  /// With one level of sharding.
  struct Level {
    std::size_t parameters = 0;       ///< Trained parameters, and the buffers in which they are whole.
    std::size_t gradients = 0;        ///< With the buffers in which buckets are whole.
    std::size_t optimizer_state = 0;  ///< With the float32 masters of 16-bit parameters.
    std::size_t other = 0;            ///< Frozen parameters and buffers.
    /// Under autocast, the 16-bit values of all trained float32 parameters, until backward; from Shard::hybrid on
    /// those of the device's shares, always, but none with Shard::parameters in several processes. (The buffers for
    /// whole parameters are 16-bit too then.) And the 16-bit gradient of the largest parameter.
    std::size_t casts = 0;
    /// The sum.
    std::size_t total() const noexcept { return parameters + gradients + optimizer_state + other + casts; }
  };
  std::array<Level, 5> levels;  ///< By Shard.
  /// The level's part of the plan.
  const Level& operator[](Shard shard) const { return levels[std::size_t(shard)]; }
};

/// The plan for a module on its own, or inside a DataParallel that was not trained yet. (The order of buckets changes
/// after the first backward, and with it some padding.) Throws InvalidArgument for options below the least that makes
/// sense, and for a lazy parameter: run one batch through the module first.
LOCKSTEP_API MemoryPlan memory_plan(const nn::ModuleBase& module, const MemoryPlanOptions& options);

/// A table: a row for each level, in MiB.
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const MemoryPlan& plan);

}  // namespace lockstep
