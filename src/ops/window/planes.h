// Maps tensors [N, C, spatial...] to the planes that kernels over windows process (kernels/window/window.h). Computes
// sums over windows as a differentiable operation.
#pragma once

#include <array>

#include <lockstep/tensor/tensor.h>

#include "core/channels_last.h"
#include "kernels/window/taps.h"
#include "kernels/window/window.h"

namespace lockstep {

/// The windows along one to three spatial dimensions.
struct SpatialTaps {
  std::array<Taps, 3> axes = {};
  int dims = 0;
};

enum class ImageLayout : bool { row_major, channels_last };

/// The memory layout of images: channels-last only if they are dense in it.
ImageLayout layout_of(const Tensor& x);

/// x in that layout, dense: x itself, or a copy that is not recorded.
Tensor dense_in(ImageLayout layout, const Tensor& x);

/// A new tensor [N, C, spatial...], uninitialized.
Tensor make_images(DeviceState& device, const Shape& sizes, DType dtype, ImageLayout layout);

/// sizes: the sizes of the inputs, [N, C, spatial...]. The spatial sizes equal those in `taps`.
WindowPlanes planes_over(const Shape& sizes, const SpatialTaps& taps, ImageLayout layout);

/// The sizes [N, C, outputs...] for inputs of `sizes` (transposed: the inputs' sizes for outputs of `sizes`).
Shape sizes_after(const Shape& sizes, const SpatialTaps& taps, bool transposed = false);

/// Weighted sums over windows, or their gradient; differentiable. x: [N, C, spatial...], floating.
Tensor sum_windows(const char* op, const char* node, const Tensor& x, const SpatialTaps& taps, ImageLayout layout,
                   bool transposed = false);

/// Throws ShapeError unless x is [N, C, spatial...] or [C, spatial...], where only N may be 0.
void check_images(const char* op, const Tensor& x, int dims);

/// Applies f to x. If x is [C, spatial...], adds a batch dimension for f, and removes it from the result.
template <class F>
Tensor on_batch(const char* op, const Tensor& x, int dims, const F& f) {
  check_images(op, x, dims);
  return x.dim() == dims + 2 ? f(x) : f(x.unsqueeze(0)).squeeze(0);
}

}  // namespace lockstep
