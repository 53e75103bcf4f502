#include <lockstep/nn/conv.h>

#include <algorithm>
#include <ostream>
#include <utility>
#include <vector>

#include <lockstep/ops/layout.h>

#include "core/text.h"
#include "nn/layer_parameters.h"

namespace lockstep::nn {
namespace {

using ConvFunction = decltype(&conv1d);
using TransposeFunction = decltype(&conv_transpose1d);
constexpr ConvFunction kConv[] = {&conv1d, &conv2d, &conv3d};
constexpr TransposeFunction kTranspose[] = {&conv_transpose1d, &conv_transpose2d, &conv_transpose3d};

PadMode pad_mode(PaddingMode mode) {
  return mode == PaddingMode::circular  ? PadMode::circular
         : mode == PaddingMode::reflect ? PadMode::reflect
                                        : PadMode::replicate;
}

}  // namespace

ConvState::ConvState(const char* layer, int dims, const Channels& channels, const PerDimension& kernel,
                     const ConvLayerOptions& options)
    : out_channels(channels.out),
      layer_(layer),
      dims_(dims),
      transposed_(false),
      groups_(options.groups),
      kernel_(kernel.over(layer, "kernel_size", dims, 1)),
      stride_(options.stride.over(layer, "stride", dims, 1)),
      dilation_(options.dilation.over(layer, "dilation", dims, 1)),
      before_(options.padding.each().over(layer, "padding", dims, 0)),
      behind_(before_),
      mode_(options.padding_mode) {
  if (options.padding.rule() == Padding::same)
    for (int d = 0; d < dims; ++d) {
      if (stride_[d] != 1)
        throw InvalidArgument(text("[", layer, "] expected a stride of 1 for Padding::same, got ", stride_));
      const std::int64_t total = dilation_[d] * (kernel_[d] - 1);
      before_[d] = total / 2;
      behind_[d] = total - before_[d];
    }
  check(channels);
  if (options.bias) bias.emplace(Parameter::lazy({out_channels}));
  if (channels.in)
    make(*channels.in, options.tensor);
  else
    weight = Parameter::lazy(weight_sizes(-1));
}

ConvState::ConvState(const char* layer, int dims, const Channels& channels, const PerDimension& kernel,
                     const ConvTransposeLayerOptions& options)
    : out_channels(channels.out),
      layer_(layer),
      dims_(dims),
      transposed_(true),
      groups_(options.groups),
      kernel_(kernel.over(layer, "kernel_size", dims, 1)),
      stride_(options.stride.over(layer, "stride", dims, 1)),
      dilation_(options.dilation.over(layer, "dilation", dims, 1)),
      before_(options.padding.over(layer, "padding", dims, 0)),
      behind_(before_),
      output_padding_(options.output_padding.over(layer, "output_padding", dims, 0)) {
  check(channels);
  if (options.bias) bias.emplace(Parameter::lazy({out_channels}));
  if (channels.in)
    make(*channels.in, options.tensor);
  else
    weight = Parameter::lazy(weight_sizes(-1));
}

void ConvState::check(const Channels& channels) const {
  const std::int64_t in = channels.in.value_or(0);
  if (in < 0 || channels.out < 0)
    throw InvalidArgument(text("[", layer_, "] expected channels of at least 0, got ", in, " and ", channels.out));
  if (groups_ < 1 || in % groups_ != 0 || channels.out % groups_ != 0)
    throw InvalidArgument(text("[", layer_, "] expected groups that divide the channels, got ", groups_, " groups of ",
                               in, " and ", channels.out, " channels"));
}

Shape ConvState::weight_sizes(std::int64_t in) const {
  const std::int64_t first = transposed_ ? in : out_channels, second = transposed_ ? out_channels / groups_ : in;
  Shape sizes = {first, second};
  if (!transposed_ && in > 0) sizes[1] = in / groups_;
  for (const std::int64_t size : kernel_) sizes.push_back(size);
  return sizes;
}

void ConvState::make(std::int64_t in, const TensorOptions& options) {
  in_channels = in;
  const Shape sizes = weight_sizes(in);
  double fan = double(sizes[1]);
  for (const std::int64_t size : kernel_) fan *= double(size);
  weight = uniform_parameter(sizes, fan, options);
  if (bias) *bias = uniform_parameter({out_channels}, fan, options);
}

void ConvState::initialize_parameters(const Tensor& x) {
  if (weight.defined()) {
    in_channels = transposed_ ? weight.size(0) : weight.size(1) * groups_;
    return;
  }
  const int channels = x.dim() - dims_ - 1;
  if (channels != 0 && channels != 1)
    throw ShapeError(text("[", layer_, "] expected x of ", dims_ + 2, " dimensions, or of ", dims_ + 1,
                          " without a batch, got ", x.sizes()));
  const std::int64_t in = x.sizes()[channels];
  check({in, out_channels});
  make(in, x.options());
}

// Applies the padding that the convolution itself does not support: modes other than zeros, or more after x than
// before.
Tensor ConvState::padded(const Tensor& x) const {
  if (mode_ == PaddingMode::zeros || x.dim() <= dims_) return x;
  std::vector<std::int64_t> around;
  for (int d = dims_; d-- > 0;) around.insert(around.end(), {before_[d], behind_[d]});
  return pad(x, around, {.mode = pad_mode(mode_)});
}

Tensor ConvState::convolve(const Tensor& x) const {
  ConvOptions options = {.stride = stride_, .dilation = dilation_, .groups = groups_};
  if (mode_ == PaddingMode::zeros) options.padding = before_ == behind_ ? Padding(before_) : Padding(Padding::same);
  return kConv[dims_ - 1](padded(x), weight, tensor_or_none(bias), options);
}

Tensor ConvState::convolve_transposed(const Tensor& x) const {
  return kTranspose[dims_ - 1](x, weight, tensor_or_none(bias),
                               {.stride = stride_,
                                .padding = before_,
                                .output_padding = output_padding_,
                                .groups = groups_,
                                .dilation = dilation_});
}

void ConvState::print(std::ostream& out) const {
  const auto each = [&](const Shape& numbers) {
    const char* separator = "(";
    for (const std::int64_t number : numbers) out << std::exchange(separator, ", ") << number;
    out << (numbers.rank() == 1 ? ",)" : ")");
  };
  const auto differs = [](const Shape& numbers, std::int64_t usual) {
    return std::any_of(numbers.begin(), numbers.end(), [&](std::int64_t number) { return number != usual; });
  };
  const std::int64_t in = weight.defined() ? transposed_ ? weight.size(0) : weight.size(1) * groups_ : 0;
  out << layer_ << '(' << in << ", " << out_channels << ", kernel_size=";
  each(kernel_);
  out << ", stride=";
  each(stride_);
  if (differs(before_, 0)) out << ", padding=", each(before_);
  if (differs(dilation_, 1)) out << ", dilation=", each(dilation_);
  if (groups_ != 1) out << ", groups=" << groups_;
  if (!bias) out << ", bias=False";
  out << ')';
}

}  // namespace lockstep::nn
