// Products of bfloat16 matrices by oneDNN, where the processor multiplies them itself.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/backend.h"

namespace lockstep::host {

/// What a piece's scratch is taken from. Tests put guards around it.
using ScratchOf = std::shared_ptr<std::byte[]> (*)(std::size_t bytes);
std::shared_ptr<std::byte[]> scratch_on_heap(std::size_t bytes);

/// Computes the product and returns true, or declines it: small ones, some options, and processors without instructions
/// for bfloat16. Sums are float. Whoever calls this holds a LibraryUse.
bool bfloat16_product(const KernelContext& context, const Matmul& p, ScratchOf scratch_of = scratch_on_heap);

}  // namespace lockstep::host
