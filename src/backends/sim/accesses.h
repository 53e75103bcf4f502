// The bytes that a matrix product or a fused operation reads and writes. Pure functions.
#pragma once

#include <vector>

#include "runtime/backend.h"

namespace lockstep::sim {

/// Exact for one matrix, and for batches whose matrices are adjacent, evenly spaced and dense, or side by side. A batch
/// of another layout has one access for each matrix, or, if there are many, for each matrix's span.
std::vector<MemoryAccess> accesses_of(const Matmul& matmul);

/// Exact for operands that are dense in any order of their dimensions, and for dense rows at one pitch. For other
/// operands, the span from the first byte to the last. The workspace counts as written.
std::vector<MemoryAccess> accesses_of(const FusedOp& op, void* workspace, std::size_t workspace_bytes);

}  // namespace lockstep::sim
