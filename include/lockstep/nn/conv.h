// Convolution layers of one, two and three spatial dimensions, their transposes, and lazy forms that take the number of
// input channels from the first batch. Names and shapes of parameters are PyTorch's. Copies are explicit: copy(layer).
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include <lockstep/core/choice.h>
#include <lockstep/nn/module.h>
#include <lockstep/ops/conv.h>

namespace lockstep::nn {

using lockstep::Padding;

/// The padding around an image: zeros; the image wrapped around (circular); the mirrored image without its border
/// (reflect); or the border repeated (replicate).
enum class PaddingMode : std::uint8_t { zeros, circular, reflect, replicate };

}  // namespace lockstep::nn

template <>
struct lockstep::ChoiceNames<lockstep::nn::PaddingMode> {
  static constexpr const char* kOption = "padding_mode";
  static constexpr std::string_view kNames[] = {"zeros", "circular", "reflect", "replicate"};
};

namespace lockstep::nn {

struct ConvLayerOptions {
  PerDimension stride = 1;
  Padding padding = 0;  ///< Numbers, "same" or "valid".
  PerDimension dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Choice<PaddingMode> padding_mode = PaddingMode::zeros;
  TensorOptions tensor = {};  ///< Device and dtype of the parameters.
};

/// libtorch's names of these options.
using Conv1dOptions = ConvLayerOptions;
using Conv2dOptions = ConvLayerOptions;
using Conv3dOptions = ConvLayerOptions;

struct ConvTransposeLayerOptions {
  PerDimension stride = 1;
  PerDimension padding = 0;         ///< Elements to cut off at both ends of each dimension of the result.
  PerDimension output_padding = 0;  ///< Elements to add at the end of each; less than the stride or the dilation.
  std::int64_t groups = 1;
  bool bias = true;
  PerDimension dilation = 1;
  TensorOptions tensor = {};  ///< Device and dtype of the parameters.
};

/// libtorch's names of these options.
using ConvTranspose1dOptions = ConvTransposeLayerOptions;
using ConvTranspose2dOptions = ConvTransposeLayerOptions;
using ConvTranspose3dOptions = ConvTransposeLayerOptions;

/// The state of convolution layers. Weight and bias start uniform in +-1/sqrt(fan in).
class LOCKSTEP_API ConvState {
 public:
  /// The numbers of channels. in_channels is as given, or taken from the first batch (-1 before that batch). To be read
  /// only: assigning them changes no parameter.
  std::int64_t in_channels = -1, out_channels;
  Parameter weight;               // [out, in / groups, kernel...]; of a transpose [in, out / groups, kernel...]
  std::optional<Parameter> bias;  // [out]

  auto members() { return lockstep::members("weight", weight, "bias", bias); }

 protected:
  /// Numbers of channels.
  struct Channels {
    std::optional<std::int64_t> in;  ///< Nullopt: taken from the first batch.
    std::int64_t out;
  };
  /// The constructors throw InvalidArgument or ShapeError for invalid sizes and options.
  ConvState(const char* layer, int dims, const Channels& channels, const PerDimension& kernel,
            const ConvLayerOptions& options);
  ConvState(const char* layer, int dims, const Channels& channels, const PerDimension& kernel,
            const ConvTransposeLayerOptions& options);

  /// Calls conv1d(), conv2d() or conv3d() with the layer's parameters.
  Tensor convolve(const Tensor& x) const;
  /// Writes the line of pretty_print().
  void print(std::ostream& out) const;
  /// Calls conv_transpose1d(), conv_transpose2d() or conv_transpose3d() with the layer's parameters.
  Tensor convolve_transposed(const Tensor& x) const;
  /// Creates the parameters of a lazy layer with the number of channels, device and dtype of x, unless they exist.
  void initialize_parameters(const Tensor& x);

 private:
  void check(const Channels& channels) const;
  void make(std::int64_t in, const TensorOptions& like);
  Shape weight_sizes(std::int64_t in) const;
  Tensor padded(const Tensor& x) const;

  const char* layer_;
  int dims_;
  bool transposed_;
  std::int64_t groups_;
  Shape kernel_, stride_, dilation_, before_, behind_, output_padding_;
  PaddingMode mode_ = PaddingMode::zeros;
};

/// The layer of conv1d(), conv2d() or conv3d(). x: [batch, in, spatial...] or [in, spatial...].
template <int kDims>
class Conv : public Module<Conv<kDims>>, public ConvState {
  static constexpr const char* kNames[] = {"Conv1d", "Conv2d", "Conv3d"};

 public:
  Conv(std::int64_t in, std::int64_t out, const PerDimension& kernel_size, const ConvLayerOptions& options = {})
      : ConvState(kNames[kDims - 1], kDims, {in, out}, kernel_size, options) {}
  /// Positional arguments: Conv2d(3, 16, 3, 2, 1).
  template <std::integral Number>
  Conv(std::int64_t in, std::int64_t out, const PerDimension& kernel_size, Number stride, std::int64_t padding = 0)
      : Conv(in, out, kernel_size, ConvLayerOptions{.stride = stride, .padding = padding}) {}
  LOCKSTEP_COPIED_IF_ASKED(Conv);
  Tensor forward(const Tensor& x) const { return convolve(x); }
  void pretty_print(std::ostream& out) const override { print(out); }
};

/// A Conv that takes its in_channels, device and dtype from its first batch.
template <int kDims>
class LazyConv : public Module<LazyConv<kDims>>, public ConvState {
  static constexpr const char* kNames[] = {"LazyConv1d", "LazyConv2d", "LazyConv3d"};

 public:
  LazyConv(std::int64_t out, const PerDimension& kernel_size, const ConvLayerOptions& options = {})
      : ConvState(kNames[kDims - 1], kDims, {std::nullopt, out}, kernel_size, options) {}
  LOCKSTEP_COPIED_IF_ASKED(LazyConv);
  Tensor forward(const Tensor& x) {
    initialize_parameters(x);
    return convolve(x);
  }
};

/// The layer of conv_transpose1d(), conv_transpose2d() or conv_transpose3d().
template <int kDims>
class ConvTranspose : public Module<ConvTranspose<kDims>>, public ConvState {
  static constexpr const char* kNames[] = {"ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"};

 public:
  ConvTranspose(std::int64_t in, std::int64_t out, const PerDimension& kernel_size,
                const ConvTransposeLayerOptions& options = {})
      : ConvState(kNames[kDims - 1], kDims, {in, out}, kernel_size, options) {}
  /// Positional arguments: ConvTranspose2d(16, 3, 4, 2, 1).
  template <std::integral Number>
  ConvTranspose(std::int64_t in, std::int64_t out, const PerDimension& kernel_size, Number stride,
                std::int64_t padding = 0)
      : ConvTranspose(in, out, kernel_size, ConvTransposeLayerOptions{.stride = stride, .padding = padding}) {}
  LOCKSTEP_COPIED_IF_ASKED(ConvTranspose);
  Tensor forward(const Tensor& x) const { return convolve_transposed(x); }
  void pretty_print(std::ostream& out) const override { print(out); }
};

/// A ConvTranspose that takes its in_channels from its first batch.
template <int kDims>
class LazyConvTranspose : public Module<LazyConvTranspose<kDims>>, public ConvState {
  static constexpr const char* kNames[] = {"LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d"};

 public:
  LazyConvTranspose(std::int64_t out, const PerDimension& kernel_size, const ConvTransposeLayerOptions& options = {})
      : ConvState(kNames[kDims - 1], kDims, {std::nullopt, out}, kernel_size, options) {}
  LOCKSTEP_COPIED_IF_ASKED(LazyConvTranspose);
  Tensor forward(const Tensor& x) {
    initialize_parameters(x);
    return convolve_transposed(x);
  }
};

using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;
using LazyConv1d = LazyConv<1>;
using LazyConv2d = LazyConv<2>;
using LazyConv3d = LazyConv<3>;
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;
using LazyConvTranspose1d = LazyConvTranspose<1>;
using LazyConvTranspose2d = LazyConvTranspose<2>;
using LazyConvTranspose3d = LazyConvTranspose<3>;

}  // namespace lockstep::nn
