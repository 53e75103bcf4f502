// The bytes that a matrix product reads and writes.
#pragma once

#include <vector>

#include "runtime/backend.h"

namespace lockstep::sim {

/// Exact for one matrix, and for batches whose matrices are adjacent, evenly spaced and dense, or side by side. A batch
/// of another layout has one access for each matrix, or, if there are many, for each matrix's span.
std::vector<MemoryAccess> accesses_of(const Matmul& matmul);

}  // namespace lockstep::sim
