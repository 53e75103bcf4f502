// Matrix products. Differentiable. Floating dtypes only, else DTypeError; ShapeError names both shapes.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// [m, k] x [k, n] -> [m, n].
LOCKSTEP_API Tensor mm(const Tensor& a, const Tensor& b);

/// x weight^T + bias. x: [..., in], weight: [out, in], bias: [out] or undefined; the result: [..., out].
LOCKSTEP_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace lockstep
