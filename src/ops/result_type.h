// The dtype of an operation on two tensors (PyTorch's result_type).
#pragma once

#include <initializer_list>
#include <optional>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// The kind of a dtype, in promotion order: bool, integers, floating.
inline int kind_of(DType dtype) { return dtype == kBool ? 0 : is_floating(dtype) ? 2 : 1; }

/// The promoted dtype. A 0-dim tensor beside one with dimensions counts like a number: only if its kind is the higher
/// one. As in PyTorch.
inline DType result_type(const Tensor& a, const Tensor& b) {
  const DType x = a.dtype(), y = b.dtype();
  if (a.dim() > 0 && b.dim() == 0 && kind_of(y) <= kind_of(x)) return x;
  if (b.dim() > 0 && a.dim() == 0 && kind_of(x) <= kind_of(y)) return y;
  return promote(x, y);
}

/// The same for several: all tensors with dimensions beside all 0-dim ones.
inline DType result_type(std::initializer_list<const Tensor*> tensors) {
  std::optional<DType> parts, numbers;
  for (const Tensor* const x : tensors) {
    std::optional<DType>& common = x->dim() > 0 ? parts : numbers;
    common = common ? promote(*common, x->dtype()) : x->dtype();
  }
  if (!parts || !numbers) return parts ? *parts : *numbers;
  return kind_of(*numbers) <= kind_of(*parts) ? *parts : promote(*parts, *numbers);
}

}  // namespace lockstep
