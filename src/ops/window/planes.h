// From tensors [N, C, spatial...] to the planes of the window pattern, and sums over windows as a differentiable op.
#pragma once

#include <array>

#include <lockstep/tensor/tensor.h>

#include "core/channels_last.h"
#include "tensor/kernels/taps.h"
#include "tensor/kernels/window.h"

namespace lockstep {

/// The windows of one to three spatial dimensions.
struct SpatialTaps {
  std::array<Taps, 3> axes = {};
  int dims = 0;
};

enum class ImageLayout : bool { row_major, channels_last };

/// How images lie: channels-last only if they are dense so.
ImageLayout layout_of(const Tensor& x);

/// Values in that layout, dense: x itself or a copy, without a gradient.
Tensor dense_in(ImageLayout layout, const Tensor& x);

/// A new tensor [N, C, spatial...], uninitialized.
Tensor make_images(DeviceState& device, const Shape& sizes, DType dtype, ImageLayout layout);

/// x: [N, C, spatial...], the inputs. Their sizes are in `taps` too.
WindowPlanes planes_over(const Shape& sizes, const SpatialTaps& taps, ImageLayout layout);

/// [N, C, outputs...] from x's N and C (transposed: inputs).
Shape sizes_after(const Shape& sizes, const SpatialTaps& taps, bool transposed = false);

/// Weighted sums over windows, or their gradient; differentiable. x: [N, C, spatial...], floating.
Tensor sum_windows(const char* op, const char* node, const Tensor& x, const SpatialTaps& taps, ImageLayout layout,
                   bool transposed = false);

/// Throws ShapeError unless x is [N, C, spatial...] or [C, spatial...], where only N may be 0.
void check_images(const char* op, const Tensor& x, int dims);

/// f of a batch: of x, or of x [C, spatial...] as a batch of one, which the result is taken out of.
template <class F>
Tensor on_batch(const char* op, const Tensor& x, int dims, const F& f) {
  check_images(op, x, dims);
  return x.dim() == dims + 2 ? f(x) : f(x.unsqueeze(0)).squeeze(0);
}

}  // namespace lockstep
