// The arithmetic of collectives: what several ranks hold becomes one, and goes to several ranks. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include <lockstep/core/dtype.h>
#include <lockstep/runtime/communicator.h>

namespace lockstep::host {

/// target[i] = sources[0][i] op sources[1][i] op ..., for every target; i < count. With one source this is a copy.
/// Where other processes have ranks too, `carried` is what those before these came to, and `carry` takes the place of
/// the targets, for those that come after.
struct RankReduction {
  std::vector<const void*> sources;
  std::vector<void*> targets;
  std::size_t count = 0;
  std::size_t ranks = 0;  ///< Of all processes, by which a mean is divided; 0: the sources.
};

/// Of elements in which several processes add up: as wide as they accumulate in.
std::size_t carried_size(DType dtype, ReduceOp op) noexcept;

/// Elements [begin, end) of it, reduced in the order of the sources. A target may be a source, and no target may
/// overlap another buffer in any other way. Every element's value depends on the sources alone, never on begin and end.
/// `carried` and `carry` hold element `begin` first, of carried_size() bytes each; null for none.
void reduce_ranks(const RankReduction& reduction, DType dtype, ReduceOp op, std::size_t begin, std::size_t end,
                  const void* carried = nullptr, void* carry = nullptr);

}  // namespace lockstep::host
