// What the devices of a DataParallel divide between them.
#pragma once

#include <cstdint>
#include <iosfwd>

#include <lockstep/core/export.h>

namespace lockstep {

/// What is divided between devices, so that each holds its share only (ZeRO: Rajbhandari et al. 2020). Each value
/// includes those above it. Parameters get the same bits with each. docs/sharding.md has the memory and the traffic of
/// each, and says when to use which.
enum class Shard : std::uint8_t {
  none,             ///< Nothing: each device holds all parameters, gradients and optimizer state.
  optimizer_state,  ///< ZeRO stage 1. A device updates its share of the parameters, then an all-gather follows.
  gradients,        ///< Stage 2. After a bucket is reduce-scattered, a device keeps its share of the sum.
  parameters,       ///< Stage 3. A bucket's parameters are whole on a device only while it uses them.
};

LOCKSTEP_API std::ostream& operator<<(std::ostream& out, Shard shard);  ///< Prints the enumerator's name.

}  // namespace lockstep
