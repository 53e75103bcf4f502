// The levels at which the devices of a DataParallel share its memory.
#pragma once

#include <cstdint>
#include <iosfwd>

#include <lockstep/core/export.h>

namespace lockstep {

/// A level of sharding: devices divide something between them, and each holds its share only (ZeRO: Rajbhandari et al.
/// 2020). Each value includes those above it. Parameters get the same bits with each, and state dicts are the same.
/// From optimizer_state on, the first grad() all-gathers a gradient. Since grad() and Optimizer::state_dict() gather,
/// all processes must call them together. With one process hybrid is the same as parameters. docs/sharding.md has the memory and the traffic of each level.
enum class Shard : std::uint8_t {
  none,             ///< Nothing: each device holds all parameters, gradients and optimizer state.
  optimizer_state,  ///< ZeRO stage 1. A device updates its share of the parameters, then an all-gather follows.
  gradients,        ///< Stage 2. After a bucket is reduce-scattered, a device keeps its share of the sum.
  hybrid,           ///< As parameters, but only the devices of one process divide the parameters between them.
  parameters,       ///< Stage 3. A bucket's parameters are whole on a device only while it uses them.
};

LOCKSTEP_API std::ostream& operator<<(std::ostream& out, Shard shard);  ///< Prints the enumerator's name.

}  // namespace lockstep
