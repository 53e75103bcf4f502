// The bytes that a fused operation reads and writes.
#pragma once

#include <vector>

#include "runtime/backend.h"

namespace lockstep::sim {

/// Exact for operands that are dense in any order of their dimensions, and for dense rows at one pitch. For other
/// operands, the span from the first byte to the last. The workspace counts as written.
std::vector<MemoryAccess> accesses_of(const FusedOp& op, void* workspace, std::size_t workspace_bytes);

}  // namespace lockstep::sim
