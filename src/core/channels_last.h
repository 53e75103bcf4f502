// The channels-last memory format of images: [N, C, spatial...] with the strides of a row-major [N, spatial..., C].
#pragma once

#include <lockstep/core/shape.h>

namespace lockstep {

/// Strides of a dense channels-last tensor of these sizes, [N, C, spatial...] of at least three dimensions.
inline Shape channels_last_strides(const Shape& sizes) noexcept {
  Shape strides = sizes;
  std::int64_t stride = sizes[1];
  strides[1] = 1;
  for (int dim = sizes.rank() - 1; dim > 1; --dim) {
    strides[dim] = stride;
    stride *= sizes[dim];
  }
  strides[0] = stride;
  return strides;
}

/// True if the strides are those of a dense channels-last tensor. A row-major tensor of one channel or one pixel is
/// channels-last too. Dimensions of size 1 may have any stride.
inline bool is_dense_channels_last(const Shape& sizes, const Shape& strides) noexcept {
  if (sizes.rank() < 3) return false;
  const Shape expected = channels_last_strides(sizes);
  for (int dim = 0; dim < sizes.rank(); ++dim)
    if (sizes[dim] != 1 && strides[dim] != expected[dim]) return false;
  return true;
}

/// True if a dense tensor with these strides is channels-last and not also row-major. Dimensions of size 1 may have any
/// stride.
inline bool is_channels_last(const Shape& sizes, const Shape& strides) noexcept {
  if (sizes.rank() < 3 || sizes[1] == 1) return false;
  const Shape expected = channels_last_strides(sizes);
  std::int64_t spatial = 1;
  for (int dim = 0; dim < sizes.rank(); ++dim) {
    if (dim > 1) spatial *= sizes[dim];
    if (sizes[dim] != 1 && strides[dim] != expected[dim]) return false;
  }
  return spatial > 1;
}

}  // namespace lockstep
