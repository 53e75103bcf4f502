// Products of bfloat16 matrices by oneDNN, on processors with bfloat16 instructions.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/backend.h"

namespace lockstep::host {

/// Allocates a piece's scratch. Tests pass a function that surrounds the scratch with guard bytes.
using ScratchOf = std::shared_ptr<std::byte[]> (*)(std::size_t bytes);
std::shared_ptr<std::byte[]> scratch_on_heap(std::size_t bytes);

/// Computes the product and returns true. Declines by returning false if the product is small, has options that this
/// function lacks, or the processor has no bfloat16 instructions. Sums in float. The caller must hold a LibraryUse.
bool bfloat16_product(const KernelContext& context, const Matmul& p, ScratchOf scratch_of = scratch_on_heap);

}  // namespace lockstep::host
