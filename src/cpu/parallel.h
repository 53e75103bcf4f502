// Loops over all cores (oneTBB; lockstep/runtime/kernel.h), and matrix products on the host, for the CPU and simulated
// backends.
#pragma once

#include "runtime/backend.h"

namespace lockstep::host {

/// Computes the product on the host before it returns.
void matmul(const KernelContext& context, const Matmul& matmul);

}  // namespace lockstep::host
