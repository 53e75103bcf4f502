#include "ops/window/window_axis.h"

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep {
namespace {

// The number of windows that start inside of the input or of the padding before it, as in PyTorch's
// pooling_output_shape.
std::int64_t windows_over(const Taps& axis, bool ceil_mode) {
  const std::int64_t room = axis.in + 2 * axis.padding - axis.dilation * (axis.size - 1) - 1;
  const std::int64_t steps = room + (ceil_mode ? axis.stride - 1 : 0);
  if (steps < 0) return 0;
  const std::int64_t count = steps / axis.stride + 1;
  return ceil_mode && (count - 1) * axis.stride >= axis.in + axis.padding ? count - 1 : count;
}

}  // namespace

SpatialTaps pool_taps(const char* op, const Tensor& x, int dims, const PoolWindow& window) {
  constexpr std::int64_t kMost = std::int64_t(1) << 31;  // products of two numbers below it fit 64 bits
  const Shape size = window.size.over(op, "kernel_size", dims, 1);
  const Shape stride = window.stride ? window.stride->over(op, "stride", dims, 1) : size;
  const Shape padding = window.padding.over(op, "padding", dims, 0);
  const Shape dilation = window.dilation.over(op, "dilation", dims, 1);
  SpatialTaps taps;
  taps.dims = dims;
  for (int d = 0; d < dims; ++d) {
    for (const std::int64_t number : {size[d], stride[d], dilation[d]})
      if (number >= kMost) throw InvalidArgument(text("[", op, "] expected numbers below 2^31, got ", number));
    if (padding[d] > size[d] / 2)
      throw InvalidArgument(
          text("[", op, "] expected padding of at most half of kernel_size ", size[d], ", got ", padding[d]));
    Taps& axis = taps.axes[std::size_t(d)];
    axis.in = x.sizes()[x.dim() - dims + d];
    axis.size = size[d];
    axis.stride = stride[d];
    axis.padding = padding[d];
    axis.dilation = dilation[d];
    axis.out = windows_over(axis, window.ceil_mode);
    if (axis.out < 1)
      throw ShapeError(text("[", op, "] expected windows ", size, " that fit the images, got ", x.sizes()));
  }
  return taps;
}

SpatialTaps adaptive_taps(const char* op, const Tensor& x, int dims, const PerDimension& output_size) {
  const Shape out = output_size.over(op, "output_size", dims, -1);
  SpatialTaps taps;
  taps.dims = dims;
  for (int d = 0; d < dims; ++d) {
    Taps& axis = taps.axes[std::size_t(d)];
    axis.kind = Taps::Kind::adaptive;
    axis.in = x.sizes()[x.dim() - dims + d];
    axis.out = out[d] < 0 ? axis.in : out[d];
  }
  return taps;
}

}  // namespace lockstep
