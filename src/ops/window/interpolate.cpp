// Image resizing as sums over windows.
#include <lockstep/ops/interpolate.h>
#include <lockstep/ops/pooling.h>

#include <cmath>

#include "core/text.h"
#include "ops/dtypes.h"
#include "ops/window/planes.h"

namespace lockstep {

std::vector<double> ScaleFactor::over(const char* op, int dims) const {
  const std::vector<double> factors = all_ ? std::vector<double>(std::size_t(dims), *all_) : each_;
  if (factors.size() != std::size_t(dims))
    throw ShapeError(text("[", op, "] expected one scale_factor, or ", dims, " (one for each dimension), got ",
                          factors.size(), " of them"));
  for (const double factor : factors)
    if (!(factor > 0) || std::isinf(factor))
      throw InvalidArgument(text("[", op, "] expected a scale_factor above 0, got ", factor));
  return factors;
}

namespace {

constexpr const char* kInterpolate = "interpolate";

struct InterpolationMode {
  const char* name;
  const char* node;
  Taps::Kind kind;
  int dims;  ///< 0: any
  bool has_corners;
};

InterpolationMode described(Interpolation mode) {
  switch (mode) {
    case Interpolation::nearest: return {"nearest", "UpsampleNearest", Taps::Kind::nearest, 0, false};
    case Interpolation::nearest_exact:
      return {"nearest_exact", "UpsampleNearestExact", Taps::Kind::nearest_exact, 0, false};
    case Interpolation::linear: return {"linear", "UpsampleLinear1D", Taps::Kind::linear, 1, true};
    case Interpolation::bilinear: return {"bilinear", "UpsampleBilinear2D", Taps::Kind::linear, 2, true};
    case Interpolation::trilinear: return {"trilinear", "UpsampleTrilinear3D", Taps::Kind::linear, 3, true};
    case Interpolation::bicubic: return {"bicubic", "UpsampleBicubic2D", Taps::Kind::cubic, 2, true};
    case Interpolation::area: return {"area", "AdaptiveAvgPool", Taps::Kind::adaptive, 0, false};
  }
  throw InvalidArgument(text("[interpolate] expected a mode, got ", int(mode)));
}

// The resulting size of a dimension of size `in`.
std::int64_t scaled_size(std::int64_t in, double factor) {
  constexpr double kMost = 1ll << 31;  // as for window sizes
  const double size = std::floor(double(in) * factor);
  if (size < 1 || size >= kMost)
    throw ShapeError(text("[interpolate] expected a result of 1 to 2^31 - 1 places, got ", size, " from ", in,
                          " with scale_factor ", factor));
  return std::int64_t(size);
}

Taps interpolating(const InterpolationMode& mode, std::int64_t in, std::int64_t out, std::optional<double> factor,
                   bool align_corners) {
  Taps axis;
  axis.kind = mode.kind;
  axis.in = in;
  axis.out = out;
  axis.align_corners = align_corners;
  // The result does not depend on the scale factor in two cases: a dimension that keeps its size is copied, and nearest
  // mode doubles a size by repeating each element.
  const bool has_whole_steps = (mode.kind == Taps::Kind::nearest && (out == in || out == 2 * in)) ||
                               (mode.kind == Taps::Kind::linear && out == in);
  if (has_whole_steps) factor.reset();
  if (align_corners)
    axis.scale = out > 1 ? double(in - 1) / double(out - 1) : 0;
  else
    axis.scale = factor ? 1 / *factor : double(in) / double(out);
  return axis;
}

Tensor averaged_areas(const Tensor& x, const Shape& size) {
  const auto pool = size.rank() == 1   ? adaptive_avg_pool1d
                    : size.rank() == 2 ? adaptive_avg_pool2d
                                       : adaptive_avg_pool3d;
  return pool(x, size);
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  const InterpolationMode mode = described(options.mode);
  const Shape& sizes = impl_of(kInterpolate, x).sizes;
  const int dims = sizes.rank() - 2;
  if (dims < 1 || dims > 3)
    throw ShapeError(text("[interpolate] expected x [N, C, spatial...] with 1 to 3 spatial dimensions, got ", sizes));
  if (mode.dims != 0 && mode.dims != dims)
    throw ShapeError(text("[interpolate] expected x [N, C, ", mode.dims, " sizes] for ", mode.name, ", got ", sizes));
  check_images(kInterpolate, x, dims);
  check_floating(kInterpolate, x);
  const bool is_sized = !options.size.empty();
  if (is_sized == !options.scale_factor.empty())
    throw InvalidArgument(
        text("[interpolate] expected either size or scale_factor, got ", is_sized ? "both" : "neither"));
  if (options.align_corners && !mode.has_corners)
    throw InvalidArgument(text("[interpolate] align_corners needs a linear or cubic mode, got ", mode.name));
  if (options.recompute_scale_factor && is_sized)
    throw InvalidArgument("[interpolate] recompute_scale_factor needs a scale_factor, got none");

  std::vector<double> factors;
  Shape size;
  if (is_sized) {
    size = options.size.over(kInterpolate, "size", dims, 1);
  } else {
    factors = options.scale_factor.over(kInterpolate, dims);
    for (int d = 0; d < dims; ++d) size.push_back(scaled_size(sizes[d + 2], factors[std::size_t(d)]));
    if (options.recompute_scale_factor) factors.clear();
  }
  if (options.mode == Interpolation::area) return averaged_areas(x, size);
  SpatialTaps taps;
  taps.dims = dims;
  for (int d = 0; d < dims; ++d)
    taps.axes[std::size_t(d)] =
        interpolating(mode, sizes[d + 2], size[d],
                      factors.empty() ? std::nullopt : std::optional(factors[std::size_t(d)]), options.align_corners);
  return sum_windows(kInterpolate, mode.node, x, taps, layout_of(x));
}

}  // namespace lockstep
