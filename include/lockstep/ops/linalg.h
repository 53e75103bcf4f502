// Matrix products. Differentiable. All operands have one floating dtype, else DTypeError; ShapeError names both shapes.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// [m, k] x [k, n] -> [m, n].
LOCKSTEP_API Tensor mm(const Tensor& a, const Tensor& b);
/// [batch, m, k] x [batch, k, n] -> [batch, m, n].
LOCKSTEP_API Tensor bmm(const Tensor& a, const Tensor& b);
/// Multiplies the matrices in the last two dimensions; the leading dimensions broadcast, without copies. A vector is a
/// row on the left and a column on the right, and its extra dimension is not in the result.
LOCKSTEP_API Tensor matmul(const Tensor& a, const Tensor& b);
/// [m, k] x [k] -> [m].
LOCKSTEP_API Tensor mv(const Tensor& a, const Tensor& vector);
/// [k] and [k] -> 0-dim.
LOCKSTEP_API Tensor dot(const Tensor& a, const Tensor& b);
/// [m] and [n] -> [m, n].
LOCKSTEP_API Tensor outer(const Tensor& a, const Tensor& b);

/// x weight^T + bias. x: [..., in], weight: [out, in], bias: [out] or undefined; the result: [..., out].
LOCKSTEP_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

struct AddmmOptions {
  double beta = 1;  ///< Factor of the addend. If it is 0, the addend is ignored, even if it holds NaN.
  double alpha = 1;
};
/// beta addend + alpha a b. a: [m, k], b: [k, n], addend: broadcasts to [m, n].
LOCKSTEP_API Tensor addmm(const Tensor& addend, const Tensor& a, const Tensor& b, const AddmmOptions& options = {});

}  // namespace lockstep
