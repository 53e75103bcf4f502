// Channels-last images: tensors [N, C, spatial...] of at least three dimensions, whose channels are contiguous in
// memory.
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

/// x itself if it is dense channels-last; else a copy of its values, not recorded.
inline Tensor as_images(const Tensor& x) {
  if (is_dense_channels_last(x.sizes(), x.strides())) return x;
  Tensor images = make_images(*x.impl()->storage->device, x.sizes(), x.dtype());
  copy_values(images, x);
  return images;
}

/// A new tensor of x's sizes and that dtype: dense channels-last if x is channels-last, else row-major.
inline Tensor make_like(const Tensor& x, DType dtype) {
  const TensorImpl& impl = *x.impl();
  if (impl.contiguous || !is_channels_last(impl.sizes, impl.strides))
    return make_tensor(*impl.storage->device, impl.sizes, dtype);
  return make_images(*impl.storage->device, impl.sizes, dtype);
}
inline Tensor make_like(const Tensor& x) { return make_like(x, x.impl()->dtype); }

/// A new tensor of the sizes that a and b broadcast to: channels-last if a or b has these sizes and is channels-last.
inline Tensor make_like_either(const Tensor& a, const Tensor& b, const Shape& sizes, DType dtype) {
  for (const Tensor* x : {&a, &b})
    if (const TensorImpl& impl = *x->impl(); !impl.contiguous && impl.sizes == sizes) return make_like(*x, dtype);
  return make_tensor(*a.impl()->storage->device, sizes, dtype);
}

/// x itself if it is dense in the layout of `other`, row-major or channels-last; else a copy of its values, not
/// recorded.
inline Tensor to_layout_of(const Tensor& x, const Tensor& other) {
  if (is_channels_last(other.sizes(), other.strides())) return as_images(x);
  return x.is_contiguous() ? x : copied(x, *x.impl()->storage->device, x.dtype());
}

/// The dimensions of images of `rank` dimensions, or of [batch, channels], without that of the channels.
inline Shape all_but_channels(int rank) {
  Shape dims = {0};
  for (int i = 2; i < rank; ++i) dims.push_back(i);
  return dims;
}

/// Reshapes one value per channel, [C], to broadcast against images of `rank` dimensions: [C, 1, ...].
inline Tensor channels_of(const Tensor& x, int rank) {
  Shape sizes = Shape::filled(rank - 1, 1);
  sizes[0] = x.sizes()[0];
  return x.reshape(sizes);
}

}  // namespace lockstep
