// The public convolutions: checks, and the geometry from the options.
#include <lockstep/ops/conv.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <lockstep/core/choice.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/layout.h>

#include "core/text.h"
#include "ops/autocast.h"
#include "ops/conv/convolution.h"
#include "ops/dtypes.h"
#include "ops/images.h"
#include "ops/product.h"

namespace lockstep {
namespace {

// A convolution, or its transpose.
enum class Direction : std::uint8_t { forward, transposed };

void check_groups(const char* op, std::int64_t groups) {
  if (groups < 1) throw InvalidArgument(text("[", op, "] expected groups of at least 1, got ", groups));
}

// Advice for an error message about an x whose channels do not fit the weight.
std::string advice_for_channels(const Shape& x, std::int64_t channels, bool batched) {
  if (x.back() == channels)
    return batched ? ": its channels come last; movedim(x, -1, 1) brings them behind the batch"
                   : ": its channels come last; movedim(x, -1, 0) brings them to the front";
  return text(": make the layer with in_channels = ", x[batched ? 1 : 0], ", or give x ", channels,
              channels == 1 ? " channel" : " channels");
}

// Checks the operands of a convolution. x has a batch dimension; error messages show the shape `given` of the caller's
// x, which may lack it.
void check_operands(const char* op, int dims, Direction direction, const Tensor& x, const Shape& given,
                    const Tensor& weight, const Tensor& bias, std::int64_t groups) {
  check_factors(op, x, weight);
  if (bias.defined()) check_factors(op, x, bias);
  const Shape& w = weight.sizes();
  if (x.dim() != dims + 2 || w.rank() != dims + 2)
    throw ShapeError(text("[", op, "] expected x of ", dims + 2, " dimensions (or ", dims + 1,
                          " without a batch) and a weight of ", dims + 2, ", got ", given, " and ", w));
  const bool forward = direction == Direction::forward, batched = given.rank() == x.dim();
  if (w[0] % groups != 0)
    throw ShapeError(text("[", op, "] expected a weight ",
                          forward ? "[out channels, channels / groups, ...]" : "[channels, out channels / groups, ...]",
                          " whose first size is a multiple of the groups, got ", w, " for ", groups, " groups"));
  if (const std::int64_t channels = forward ? w[1] * groups : w[0]; x.sizes()[1] != channels)
    throw ShapeError(text("[", op, "] expected x of ", channels, " channels, ",
                          batched ? "[batch, channels, ...]" : "[channels, ...]", ", for a weight ", w,
                          groups > 1 ? text(" and ", groups, " groups") : "", ", got ", given,
                          advice_for_channels(given, channels, batched)));
  for (int d = 2; d < w.rank(); ++d)
    if (w[d] < 1) throw ShapeError(text("[", op, "] expected a window of at least 1 element, got a weight ", w));
  const std::int64_t out = forward ? w[0] : w[1] * groups;
  if (bias.defined() && bias.sizes() != Shape{out})
    throw ShapeError(text("[", op, "] expected a bias of shape ", Shape{out}, ", got ", bias.sizes()));
}

std::int64_t reach_of(const Shape& weight, const ConvGeometry& geometry, int d) {
  return geometry.dilation[d] * (weight[d + 2] - 1) + 1;
}

// Adds a batch dimension of one image if x has none.
Tensor batched(const char* op, const Tensor& x, int dims) {
  return impl_of(op, x).sizes.rank() == dims + 1 ? x.unsqueeze(0) : x;
}
Tensor like_x(const Tensor& y, const Tensor& x, int dims) { return x.dim() == dims + 1 ? y.squeeze(0) : y; }

// Sets the geometry's padding as the rule says, and returns x. If a dimension needs an odd number of zeros, appends the
// last zero to x, because a geometry pads equally on both sides.
Tensor padded_by_rule(const char* op, int dims, Padding::Rule rule, const Tensor& x, const Shape& weight,
                      ConvGeometry& geometry) {
  geometry.padding = Shape::filled(dims, 0);
  if (rule == Padding::valid) return x;
  std::vector<std::int64_t> behind(2 * std::size_t(dims), 0);  // from the last dimension on
  for (int d = dims - 1; d >= 0; --d) {
    if (geometry.stride[d] != 1)
      throw InvalidArgument(text("[", op, "] expected a stride of 1 for Padding::same, got ", geometry.stride));
    const std::int64_t total = reach_of(weight, geometry, d) - 1;
    geometry.padding[d] = total / 2;
    behind[std::size_t(2 * (dims - 1 - d) + 1)] = total % 2;
  }
  return std::count(behind.begin(), behind.end(), 1) ? pad(x, behind) : x;
}

Tensor conv(const char* op, int dims, const Tensor& given, const Tensor& weight, const Tensor& bias,
            const ConvOptions& options) {
  if (const auto cast = autocast::product()) return conv(op, dims, cast(given), cast(weight), cast(bias), options);
  check_groups(op, options.groups);
  Tensor x = batched(op, given, dims);
  check_operands(op, dims, Direction::forward, x, given.sizes(), weight, bias, options.groups);
  ConvGeometry geometry = {options.stride.over(op, "stride", dims, 1),
                           options.padding.each().over(op, "padding", dims, 0),
                           options.dilation.over(op, "dilation", dims, 1), options.groups};
  if (options.padding.rule() != Padding::numbers)
    x = padded_by_rule(op, dims, options.padding.rule(), x, weight.sizes(), geometry);
  for (int d = 0; d < dims; ++d)
    if (x.sizes()[d + 2] + 2 * geometry.padding[d] < reach_of(weight.sizes(), geometry, d))
      throw ShapeError(text("[", op, "] expected a window that fits the padded x, got a weight ", weight.sizes(),
                            " with dilation ", geometry.dilation, " for x ", given.sizes(), " with padding ",
                            geometry.padding));
  return like_x(convolution(x, weight, bias, geometry), given, dims);
}

// If output_padding is at least the stride, more windows fit the result than x has elements, so it is not the input
// gradient of a convolution to x's size. Then this removes both kinds of padding from the geometry in that dimension,
// and returns the padding to apply afterwards (negative: cut), as pad() takes it.
std::vector<std::int64_t> split_output_padding(Shape& sizes, ConvGeometry& geometry, const Shape& added) {
  const int dims = added.rank();
  std::vector<std::int64_t> padding(2 * std::size_t(dims), 0);  // from the last dimension on
  for (int d = 0; d < dims; ++d) {
    if (added[d] < geometry.stride[d]) continue;
    const std::int64_t cut = std::exchange(geometry.padding[d], 0);
    const std::size_t place = 2 * std::size_t(dims - 1 - d);
    padding[place] = -cut;
    padding[place + 1] = added[d] - cut;
    sizes[d + 2] += 2 * cut - added[d];
  }
  return padding;
}

Tensor conv_transpose(const char* op, int dims, const Tensor& given, const Tensor& weight, const Tensor& bias,
                      const ConvTransposeOptions& options) {
  if (const auto cast = autocast::product())
    return conv_transpose(op, dims, cast(given), cast(weight), cast(bias), options);
  check_groups(op, options.groups);
  const Tensor x = batched(op, given, dims);
  check_operands(op, dims, Direction::transposed, x, given.sizes(), weight, bias, options.groups);
  ConvGeometry geometry = {options.stride.over(op, "stride", dims, 1), options.padding.over(op, "padding", dims, 0),
                           options.dilation.over(op, "dilation", dims, 1), options.groups};
  const Shape added = options.output_padding.over(op, "output_padding", dims, 0);
  Shape sizes = {x.sizes()[0], weight.sizes()[1] * options.groups};
  for (int d = 0; d < dims; ++d) {
    if (added[d] >= std::max(geometry.stride[d], geometry.dilation[d]))
      throw InvalidArgument(text("[", op, "] expected output_padding below the stride or the dilation, got ", added,
                                 " for stride ", geometry.stride, " and dilation ", geometry.dilation));
    sizes.push_back((x.sizes()[d + 2] - 1) * geometry.stride[d] - 2 * geometry.padding[d] +
                    reach_of(weight.sizes(), geometry, d) + added[d]);
    if (sizes.back() < 1)
      throw ShapeError(text("[", op, "] expected a result of at least 1 element in each dimension, got ", sizes,
                            " for x ", given.sizes(), " and padding ", geometry.padding));
  }
  const std::vector<std::int64_t> behind = split_output_padding(sizes, geometry, added);
  Tensor y = convolution_input_gradient(x, weight, sizes, geometry);
  if (std::ranges::any_of(behind, [](std::int64_t n) { return n != 0; })) y = pad(y, behind);
  if (bias.defined()) y = y + channels_of(bias, y.dim());
  return like_x(y, given, dims);
}

}  // namespace

Padding::Rule Padding::rule_of(std::string_view name) {
  static constexpr std::string_view kNames[] = {"valid", "same"};
  return detail::find_choice("padding", kNames, name) == 0 ? valid : same;
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return conv("conv1d", 1, x, weight, bias, options);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return conv("conv2d", 2, x, weight, bias, options);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return conv("conv3d", 3, x, weight, bias, options);
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return conv_transpose("conv_transpose1d", 1, x, weight, bias, options);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return conv_transpose("conv_transpose2d", 2, x, weight, bias, options);
}
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return conv_transpose("conv_transpose3d", 3, x, weight, bias, options);
}

}  // namespace lockstep
