// Images as tensors: [N, C, spatial...] of at least three dimensions, whose channels lie together in memory.
#pragma once

#include <lockstep/tensor/tensor.h>

#include "core/channels_last.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

/// A new dense channels-last tensor, uninitialized.
inline Tensor make_images(DeviceState& device, const Shape& sizes, DType dtype) {
  Tensor images = make_tensor(device, sizes, dtype);
  TensorImpl& impl = *images.impl();
  impl.strides = channels_last_strides(sizes);
  impl.contiguous = is_dense(sizes, impl.strides);
  return images;
}

/// x itself, if it lies so; else a copy of its values, unrecorded.
inline Tensor as_images(const Tensor& x) {
  if (lies_channels_last(x.sizes(), x.strides())) return x;
  Tensor images = make_images(*x.impl()->storage->device, x.sizes(), x.dtype());
  copy_values(images, x);
  return images;
}

/// What each channel has, [C], beside images of `rank` dimensions: [C, 1, ...].
inline Tensor channels_of(const Tensor& x, int rank) {
  Shape sizes = Shape::filled(rank - 1, 1);
  sizes[0] = x.sizes()[0];
  return x.reshape(sizes);
}

}  // namespace lockstep
