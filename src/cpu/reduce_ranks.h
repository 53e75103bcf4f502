// The arithmetic of collectives: reduces several ranks' elements into several targets. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include <lockstep/core/dtype.h>
#include <lockstep/runtime/communicator.h>

namespace lockstep::host {

/// target[i] = sources[0][i] op sources[1][i] op ..., for every target; i < count. With one source it is a copy.
struct RankReduction {
  std::vector<const void*> sources;
  std::vector<void*> targets;
  std::size_t count = 0;
};

/// Reduces elements [begin, end), in the order of the sources. A target may be a source; no target may overlap another
/// buffer in any other way. Every element's value depends only on the sources, not on begin and end.
void reduce_ranks(const RankReduction& reduction, DType dtype, ReduceOp op, std::size_t begin, std::size_t end);

}  // namespace lockstep::host
