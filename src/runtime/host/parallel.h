// Loops over all cores (oneTBB; lockstep/runtime/kernel.h), and matrix products on the host: what the CPU and simulated
// backends share.
#pragma once

#include "runtime/backend.h"

namespace lockstep::host {

/// The product, computed on the host before it returns.
void matmul(const KernelContext& context, const Matmul& matmul);

}  // namespace lockstep::host
