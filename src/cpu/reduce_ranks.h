// The arithmetic of collectives: reduces several ranks' elements into several targets. Pure functions.
#pragma once

#include <cstddef>

#include <lockstep/core/dtype.h>
#include <lockstep/runtime/communicator.h>

#include "runtime/collectives/collective_call.h"

namespace lockstep::host {

/// Reduces elements [begin, end), in the order of the sources. A target may be a source; no target may overlap another
/// buffer in any other way. Every element's value depends only on the sources, not on begin and end.
void reduce_ranks(const RankReduction& reduction, DType dtype, ReduceOp op, std::size_t begin, std::size_t end);

}  // namespace lockstep::host
