// Memory of the CPU that a tensor gets when it is first used (DeferredInit, ReadOptions::deferred).
#pragma once

#include <functional>

#include <lockstep/tensor/tensor.h>

#include "tensor/tensor_impl.h"

namespace lockstep {

/// Writes all values of a tensor with memory, of the dtype of the deferred one. The tensor is flat, or has the layout
/// of the tensor that was passed to defer().
using DeferredValues = std::function<void(const Tensor& to)>;

/// A contiguous tensor on the CPU, whose values are made when it is used. `values` may be called several times, also by
/// several threads at once.
Tensor make_deferred(const Shape& sizes, DType dtype, DeferredValues values);

namespace detail {
bool set_deferred(const Tensor& tensor, DeferredValues values);
Tensor deferred_values(const Tensor& tensor);
}  // namespace detail

/// If the memory of the tensor, or of the tensor that it is a view of, still is deferred, keeps values() instead of a
/// call of it, and returns true. (Not of very many views.)
template <class Values>
bool defer(const Tensor& tensor, const Values& values) {
  return tensor.impl()->storage->transient && detail::set_deferred(tensor, values);
}

/// A deferred tensor with the same values; undefined if the tensor has memory, or does not cover its storage.
Tensor copy_deferred(const Tensor& tensor);

/// If the tensor is still without memory, and covers its storage, a new tensor with its values; else the tensor.
inline Tensor without_deferring(const Tensor& tensor) {
  return tensor.impl()->storage->transient ? detail::deferred_values(tensor) : tensor;
}

}  // namespace lockstep
