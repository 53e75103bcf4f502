// The bytes that a matrix product reads and writes.
#pragma once

#include <vector>

#include "runtime/backend.h"

namespace lockstep::sim {

/// Exact for one matrix, and for batches that are adjacent, evenly spaced and dense, or side by side. A batch of
/// another layout has one access per matrix, or, with many matrices, their spans.
std::vector<MemoryAccess> accesses_of(const Matmul& matmul);

}  // namespace lockstep::sim
