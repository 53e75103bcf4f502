// The weight gradient of a convolution whose window is one element: a matrix product over pixels. Safe from any thread.
//
// oneDNN has primitives for it (jit_1x1), which are not used: up to 3.12 those for AVX2 write behind the scratchpad
// that they ask for, where the stride leaves rows behind the last window and channels are no multiple of 8.
#pragma once

#include <array>
#include <cstdint>

#include <lockstep/core/shape.h>

#include "runtime/fused.h"

namespace lockstep::host {

class PixelProduct {
 public:
  /// Of images x [N, C, spatial...] and gradients y [N, K, spatial...], both float32 and channels-last.
  PixelProduct(const Shape& x, const Shape& y, const FusedOp& op);

  /// weight [K, C / groups] = the sum over all pixels of some images. `scratch`: scratch_elements().
  void run(std::int64_t images, const float* x, const float* y, float* weight, float* scratch) const;
  std::int64_t scratch_elements() const { return gathers_ ? kPixels * channels_ : 0; }

 private:
  static constexpr std::int64_t kPixels = 384;  // gathered at once: the terms of a block of a product, of float32
  using Numbers = std::array<std::int64_t, 3>;  // of the spatial dimensions; those in front that are not there are 1

  void gather(const float* x, std::int64_t first, std::int64_t count, float* to) const;
  void multiply(std::int64_t pixels, const float* x, const float* y, float* weight, double beta) const;

  std::int64_t channels_, out_channels_, groups_;
  Numbers x_ = {1, 1, 1}, y_ = {1, 1, 1}, stride_ = {1, 1, 1}, padding_ = {};
  bool gathers_;  // else the pixels of x lie as those of y
};

}  // namespace lockstep::host
