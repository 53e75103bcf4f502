// The weight gradient of a convolution with a one-element window: a matrix product over pixels. Safe from any thread.
//
// oneDNN's primitives for this product (jit_1x1) are not used. Up to 3.12, the one for AVX2 writes beyond its
// scratchpad if the stride leaves rows behind the last window and the channels are not a multiple of 8.
#pragma once

#include <array>
#include <cstdint>

#include <lockstep/core/shape.h>

#include "runtime/fused_ops/fused.h"

namespace lockstep::host {

class PixelProduct {
 public:
  /// x: the sizes of the images, [N, C, spatial...]; y: those of the gradients, [N, K, spatial...]. Both tensors are
  /// float32 and channels-last.
  PixelProduct(const Shape& x, const Shape& y, const FusedOp& op);

  /// weight [K, C / groups] = the sum of y^T x over all pixels of `images` images. `scratch` has scratch_elements()
  /// floats.
  void run(std::int64_t images, const float* x, const float* y, float* weight, float* scratch) const;
  std::int64_t scratch_elements() const { return gathers_ ? kPixels * channels_ : 0; }

 private:
  static constexpr std::int64_t kPixels = 384;  // pixels gathered at a time: one block of terms of blocked_product()
  using Numbers = std::array<std::int64_t, 3>;  // one per spatial dimension, right-aligned; the rest: defaults

  void gather(const float* x, std::int64_t first, std::int64_t count, float* to) const;
  void multiply(std::int64_t pixels, const float* x, const float* y, float* weight, double beta) const;

  std::int64_t channels_, out_channels_, groups_;
  Numbers x_ = {1, 1, 1}, y_ = {1, 1, 1}, stride_ = {1, 1, 1}, padding_ = {};
  bool gathers_;  // false if pixel i of y belongs to pixel i of x
};

}  // namespace lockstep::host
