#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/unary.h>

#include "core/text.h"
#include "ops/autocast.h"
#include "ops/dtypes.h"
#include "ops/window/planes.h"

namespace lockstep {
namespace {

// Means over windows of channels. x is seen as images with the spatial dimensions [C, pixels] (row-major), or [C] for
// each pixel (channels-last), and windows run along C.
Tensor channel_means(const Tensor& x, std::int64_t size) {
  const Shape& sizes = x.sizes();
  SpatialTaps taps;
  Taps channels;
  channels.in = channels.out = sizes[1];
  channels.size = channels.divisor = size;
  channels.padding = size / 2;
  const std::int64_t pixels = x.numel() / std::max<std::int64_t>(sizes[0] * sizes[1], 1);
  if (layout_of(x) == ImageLayout::row_major) {
    taps.dims = 2;
    taps.axes[0] = channels;
    taps.axes[1] = Taps::identity(pixels);
    const Tensor planes = x.reshape({sizes[0], 1, sizes[1], pixels});
    return sum_windows("local_response_norm", "AvgPool", planes, taps, ImageLayout::row_major).view(sizes);
  }
  taps.dims = 1;
  taps.axes[0] = channels;
  const Tensor last = movedim(x, 1, -1), planes = last.reshape({sizes[0] * pixels, 1, sizes[1]});
  const Tensor means = sum_windows("local_response_norm", "AvgPool", planes, taps, ImageLayout::row_major);
  return movedim(means.view(last.sizes()), -1, 1);
}

}  // namespace

Tensor local_response_norm(const Tensor& x, std::int64_t size, const LocalResponseOptions& options) {
  if (const auto cast = autocast::wide()) return local_response_norm(cast(x), size, options);
  check_floating("local_response_norm", x);
  if (x.dim() < 3) throw ShapeError(text("[local_response_norm] expected x of at least 3 dimensions, got ", x.sizes()));
  if (size < 1 || size >= std::int64_t(1) << 31)
    throw InvalidArgument(text("[local_response_norm] expected a size from 1 to 2^31 - 1, got ", size));
  if (x.numel() == 0) return x.clone();
  return x / pow(channel_means(square(x), size) * options.alpha + options.k, options.beta);
}

}  // namespace lockstep
