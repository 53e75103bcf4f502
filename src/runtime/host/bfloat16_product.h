// Products of bfloat16 matrices by oneDNN, where the processor multiplies them itself.
#pragma once

#include "runtime/backend.h"

namespace lockstep::host {

/// Computes the product and returns true, or declines it: small ones, some options, and processors without instructions
/// for bfloat16. Sums are float. Whoever calls this holds a LibraryUse.
bool bfloat16_product(const KernelContext& context, const Matmul& p);

}  // namespace lockstep::host
