// Average pooling, and norms made of it.
#include <lockstep/ops/pooling.h>

#include <cmath>

#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/unary.h>

#include "core/text.h"
#include "ops/window/window_axis.h"

namespace lockstep {
namespace {

Tensor average(const char* op, const char* node, const Tensor& x, const SpatialTaps& taps) {
  return on_batch(op, x, taps.dims,
                  [&](const Tensor& batch) { return sum_windows(op, node, batch, taps, layout_of(batch)); });
}

Tensor windows(const char* op, const char* node, const Tensor& x, int dims, const PerDimension& kernel_size,
               const AvgPoolOptions& options) {
  check_images(op, x, dims);
  if (options.divisor_override == 0)
    throw InvalidArgument(text("[", op, "] expected a divisor_override other than 0, got 0"));
  SpatialTaps taps = pool_taps(op, x, dims, {kernel_size, options.stride, options.padding, 1, options.ceil_mode});
  for (Taps& axis : taps.axes)
    axis.divide = options.divisor_override    ? Taps::Divide::by_number
                  : options.count_include_pad ? Taps::Divide::with_padding
                                              : Taps::Divide::inside;
  taps.axes[0].divisor = options.divisor_override.value_or(1);
  return average(op, node, x, taps);
}

Tensor adaptive(const char* op, const char* node, const Tensor& x, int dims, const PerDimension& output_size) {
  check_images(op, x, dims);
  SpatialTaps taps = adaptive_taps(op, x, dims, output_size);
  for (Taps& axis : taps.axes) axis.divide = Taps::Divide::inside;
  return average(op, node, x, taps);
}

// The norm of each window. As in PyTorch, the sum of powers is their mean times the size of a full window.
Tensor norms(const char* op, const char* node, const Tensor& x, double norm_type, int dims,
             const PerDimension& kernel_size, const LpPoolOptions& options) {
  check_images(op, x, dims);
  if (norm_type == 0 || std::isnan(norm_type))
    throw InvalidArgument(text("[", op, "] expected a norm_type other than 0, got ", norm_type));
  SpatialTaps taps = pool_taps(op, x, dims, {kernel_size, options.stride, 0, 1, options.ceil_mode});
  if (std::isinf(norm_type)) {
    const auto greatest = dims == 1 ? max_pool1d : dims == 2 ? max_pool2d : max_pool3d;
    const MaxPoolOptions same = {.stride = options.stride, .ceil_mode = options.ceil_mode};
    return norm_type > 0 ? greatest(abs(x), kernel_size, same) : -greatest(-abs(x), kernel_size, same);
  }
  for (Taps& axis : taps.axes) axis.divide = Taps::Divide::with_padding;
  const double size = double(kernel_size.over(op, "kernel_size", dims, 1).elements());
  const Tensor means = average(op, node, pow(x, norm_type), taps);
  return pow(sign(means) * relu(abs(means)) * size, 1 / norm_type);  // relu's gradient at 0 is 0, not NaN
}

}  // namespace

Tensor avg_pool1d(const Tensor& x, const PerDimension& kernel_size, const AvgPoolOptions& options) {
  return windows("avg_pool1d", "AvgPool1D", x, 1, kernel_size, options);
}
Tensor avg_pool2d(const Tensor& x, const PerDimension& kernel_size, const AvgPoolOptions& options) {
  return windows("avg_pool2d", "AvgPool2D", x, 2, kernel_size, options);
}
Tensor avg_pool3d(const Tensor& x, const PerDimension& kernel_size, const AvgPoolOptions& options) {
  return windows("avg_pool3d", "AvgPool3D", x, 3, kernel_size, options);
}

Tensor adaptive_avg_pool1d(const Tensor& x, const PerDimension& output_size) {
  return adaptive("adaptive_avg_pool1d", "AdaptiveAvgPool1D", x, 1, output_size);
}
Tensor adaptive_avg_pool2d(const Tensor& x, const PerDimension& output_size) {
  return adaptive("adaptive_avg_pool2d", "AdaptiveAvgPool2D", x, 2, output_size);
}
Tensor adaptive_avg_pool3d(const Tensor& x, const PerDimension& output_size) {
  return adaptive("adaptive_avg_pool3d", "AdaptiveAvgPool3D", x, 3, output_size);
}

Tensor lp_pool1d(const Tensor& x, double norm_type, const PerDimension& kernel_size, const LpPoolOptions& options) {
  return norms("lp_pool1d", "AvgPool1D", x, norm_type, 1, kernel_size, options);
}
Tensor lp_pool2d(const Tensor& x, double norm_type, const PerDimension& kernel_size, const LpPoolOptions& options) {
  return norms("lp_pool2d", "AvgPool2D", x, norm_type, 2, kernel_size, options);
}
Tensor lp_pool3d(const Tensor& x, double norm_type, const PerDimension& kernel_size, const LpPoolOptions& options) {
  return norms("lp_pool3d", "AvgPool3D", x, norm_type, 3, kernel_size, options);
}

}  // namespace lockstep
