// Sums over 16-bit tensors in another dtype: float32 results are not rounded to 16 bits, and need no conversion.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// mm(a, b) in `dtype`. a: [m, k], b: [k, n], of one floating dtype. If they are 16-bit and `dtype` is float32, the
/// product is written in float32. Differentiable.
Tensor mm_as(DType dtype, const Tensor& a, const Tensor& b);

/// sum(x, {0}) in `dtype`. x: floating. If x is 16-bit and `dtype` is float32, the sum is written in float32.
/// Differentiable.
Tensor sum_rows_as(DType dtype, const Tensor& x);

}  // namespace lockstep
