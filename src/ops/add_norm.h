// Norms whose result has another dtype than their input, and residual connections that end in a norm (add_norm.cpp).
#pragma once

#include <lockstep/ops/normalization.h>

#include "ops/norms.h"

namespace lockstep {

/// True if add_and_normalize() has kernels for an x of this dtype and a norm in `result`: float32 and a 16-bit dtype,
/// or one of these three dtypes twice.
bool has_add_norm(DType x, DType result);

/// The sum of x and branch, and its norm in `result`; without a branch, which is then undefined, only the norm of x.
/// x: [rows, length], contiguous, not empty; branch: like x, of dtype `result`; weight, bias: [length], float32, or
/// undefined (`norm` says which there must be). The results have `sizes`, of as many elements. Statistics are float32.
/// Recorded as one node.
SumAndNorm add_and_normalize(const RowNorm& norm, const Tensor& x, const Tensor& branch, const Tensor& weight,
                             const Tensor& bias, double eps, DType result, const Shape& sizes);

}  // namespace lockstep
