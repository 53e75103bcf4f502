// Memory of the CPU that a tensor gets when it is first used (DeferredInit, ReadOptions::deferred).
#pragma once

#include <functional>

#include <lockstep/tensor/tensor.h>

#include "tensor/tensor_impl.h"

namespace lockstep {

/// Writes all values of a flat, contiguous tensor with memory, of the dtype of the deferred one.
using DeferredValues = std::function<void(const Tensor& flat)>;

/// A contiguous tensor on the CPU, whose values are made when it is used. `values` may be called several times, also by
/// several threads at once.
Tensor make_deferred(const Shape& sizes, DType dtype, DeferredValues values);

namespace detail {
bool set_deferred(const Tensor& tensor, DeferredValues values);
Tensor deferred_values(const Tensor& tensor);
void make_memory_to_write(const Tensor& tensor);
}  // namespace detail

/// If the tensor still is without memory, and covers its storage, keeps values() instead of a call of it, and returns
/// true.
template <class Values>
bool defer(const Tensor& tensor, const Values& values) {
  return tensor.impl()->storage->transient && detail::set_deferred(tensor, values);
}

/// Call this before all values are written: if the tensor is still without memory, and covers its storage, gives it
/// memory with any values. Throws OutOfMemory.
inline void will_write_all(const Tensor& tensor) {
  if (tensor.impl()->storage->transient) detail::make_memory_to_write(tensor);
}

/// If the tensor is still without memory, and covers its storage, a new tensor with its values; else the tensor.
inline Tensor without_deferring(const Tensor& tensor) {
  return tensor.impl()->storage->transient ? detail::deferred_values(tensor) : tensor;
}

}  // namespace lockstep
