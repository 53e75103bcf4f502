// The last step of normalizations: multiplies by a weight and adds a bias, each of which is optional.
#pragma once

#include <lockstep/ops/arithmetic.h>

#include "core/text.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

/// Checks that `parameter`, a weight or bias, is undefined or has `sizes`, this dtype and x's device. Throws
/// ShapeError, DTypeError or DeviceMismatch if not.
inline void check_affine(const char* op, const Tensor& x, const Tensor& parameter, const Shape& sizes, DType dtype) {
  if (!parameter.defined()) return;
  check_same_device(op, x, parameter);
  if (parameter.sizes() != sizes)
    throw ShapeError(text("[", op, "] expected a parameter of shape ", sizes, ", got ", parameter.sizes()));
  if (parameter.dtype() != dtype)
    throw DTypeError(text("[", op, "] expected a parameter of ", dtype, ", got ", parameter.dtype()));
}
/// The same, with x's dtype.
inline void check_affine(const char* op, const Tensor& x, const Tensor& parameter, const Shape& sizes) {
  check_affine(op, x, parameter, sizes, x.dtype());
}

/// Reshapes [channels] to broadcast against [batch, channels, ...]; an undefined tensor stays undefined.
inline Tensor per_channel(const Tensor& parameter, int rank) {
  if (!parameter.defined()) return parameter;
  Shape sizes = Shape::filled(rank, 1);
  sizes[1] = parameter.numel();
  return parameter.reshape(sizes);
}

inline Tensor affine(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor scaled = weight.defined() ? x * weight : x;
  return bias.defined() ? scaled + bias : scaled;
}

}  // namespace lockstep
