// The dtypes of operations: checks, promotion, and the dtype of intermediate results.
#pragma once

#include <cmath>
#include <initializer_list>
#include <optional>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

/// Throws DTypeError naming `op` unless x is floating.
inline void check_floating(const char* op, const Tensor& x) {
  if (!is_floating(impl_of(op, x).dtype))
    throw DTypeError(text("[", op, "] expected a floating dtype, got ", x.dtype()));
}

/// True if `dtype`, an integer dtype, holds the number exactly. No integer dtype holds a fraction, an infinity or NaN.
inline bool holds(DType dtype, double number) {
  const bool is_unsigned = dtype == kUInt8;
  const double end = std::ldexp(1, 8 * int(size_of(dtype)) - (is_unsigned ? 0 : 1));
  return std::floor(number) == number && number >= (is_unsigned ? 0 : -end) && number < end;
}

/// The kind of a dtype, in promotion order: bool, integers, floating.
inline int kind_of(DType dtype) { return dtype == kBool ? 0 : is_floating(dtype) ? 2 : 1; }

/// The dtype of an operation on two tensors, as PyTorch's result_type. A 0-dim tensor beside one with dimensions counts
/// like a number: only if its kind is the higher one.
inline DType result_type(const Tensor& a, const Tensor& b) {
  const DType x = a.dtype(), y = b.dtype();
  if (a.dim() > 0 && b.dim() == 0 && kind_of(y) <= kind_of(x)) return x;
  if (b.dim() > 0 && a.dim() == 0 && kind_of(x) <= kind_of(y)) return y;
  return promote(x, y);
}

/// result_type() of several tensors: those with dimensions count as one tensor, and those that are 0-dim as another.
inline DType result_type(std::initializer_list<const Tensor*> tensors) {
  std::optional<DType> parts, numbers;
  for (const Tensor* const x : tensors) {
    std::optional<DType>& common = x->dim() > 0 ? parts : numbers;
    common = common ? promote(*common, x->dtype()) : x->dtype();
  }
  if (!parts || !numbers) return parts ? *parts : *numbers;
  return kind_of(*numbers) <= kind_of(*parts) ? *parts : promote(*parts, *numbers);
}

/// The dtype of intermediate results of composed operations: 16-bit floats overflow at 65504 (float16) or have only 8
/// bits of precision (bfloat16), so they become float32 and are rounded once, at the end.
inline DType wide_dtype(DType dtype) { return is_floating(dtype) && size_of(dtype) < 4 ? kFloat32 : dtype; }

/// Converts to the wide dtype; x itself if it is wide enough. Differentiable.
inline Tensor widened(const Tensor& x) { return x.to(wide_dtype(x.dtype())); }

}  // namespace lockstep
