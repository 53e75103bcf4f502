// The dtype of an operation on two tensors.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// That of both dtypes, but for a 0-dim tensor beside one with dimensions: it counts as a number does, only if its kind
/// (bool, integers, floating, in this order) is the higher one. As PyTorch.
inline DType result_type(const Tensor& a, const Tensor& b) {
  const DType x = a.dtype(), y = b.dtype();
  const auto kind = [](DType dtype) { return dtype == kBool ? 0 : is_floating(dtype) ? 2 : 1; };
  if (a.dim() > 0 && b.dim() == 0 && kind(y) <= kind(x)) return x;
  if (b.dim() > 0 && a.dim() == 0 && kind(x) <= kind(y)) return y;
  return promote(x, y);
}

}  // namespace lockstep
