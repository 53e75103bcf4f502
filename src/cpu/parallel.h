// Loops over all cores (oneTBB; lockstep/runtime/kernel.h), and matrix products on the host, for the CPU and simulated
// backends.
#pragma once

#include "runtime/backend.h"

namespace lockstep::host {

/// Computes the product on the host before it returns.
void matmul(const KernelContext& context, const Matmul& matmul);
/// Computes one float32 or float64 product on this thread, as a part of a larger operation; ignores `batch`. The
/// function that divided the work into pieces must hold a LibraryUse.
void matmul_piece(const Matmul& matmul);

}  // namespace lockstep::host
