// Convolutions over one, two and three spatial dimensions (cross-correlations, as usual in deep learning), and their
// transposes. Differentiable to any order. Thread-safe: the functions may run on several threads at once.
//
// x: [batch, channels, spatial...], or [channels, spatial...] without a batch. All operands are on one device and have
// one floating dtype, else DeviceMismatch or DTypeError. Shapes that do not fit throw ShapeError; options out of range
// throw InvalidArgument.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include <lockstep/ops/per_dimension.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Zero padding of an image: numbers, the same before and after each dimension, or a rule.
///   .padding = 1      .padding = {1, 2}      .padding = "same"
class LOCKSTEP_API Padding {
 public:
  /// How the padding is given: by numbers, or by a rule.
  enum Rule : std::uint8_t {
    numbers,
    valid,  ///< No padding.
    same,   ///< The result has x's size; needs a stride of 1. If the total is odd, the end gets one more zero.
  };

  Padding(std::int64_t all) : each_(all) {}
  Padding(int all) : each_(all) {}
  Padding(std::initializer_list<std::int64_t> each) : each_(each) {}
  Padding(const Shape& each) : each_(each) {}
  Padding(Rule rule) : each_(0), rule_(rule) {}
  /// "same" or "valid". Throws InvalidArgument for another text.
  template <std::convertible_to<std::string_view> Name>
  Padding(const Name& name) : Padding(rule_of(std::string_view(name))) {}

  Rule rule() const noexcept { return rule_; }                 ///< The rule, or `numbers`.
  const PerDimension& each() const noexcept { return each_; }  ///< The padding of each dimension, for Rule::numbers.

 private:
  static Rule rule_of(std::string_view name);

  PerDimension each_;
  Rule rule_ = numbers;
};

struct ConvOptions {
  PerDimension stride = 1;
  Padding padding = 0;
  PerDimension dilation = 1;  ///< The distance in x between neighbouring elements of a window.
  std::int64_t groups = 1;    ///< Divides the channels into this many groups; each group sees only its own inputs.
};

/// weight: [out channels, channels / groups, window...]; bias: [out channels], or undefined. The result has
/// floor((size + 2 padding - dilation (window - 1) - 1) / stride) + 1 elements in each spatial dimension.
/// The result may be channels-last in memory (see strides()); contiguous() gives row-major order.
LOCKSTEP_API Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                           const ConvOptions& options = {});
LOCKSTEP_API Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                           const ConvOptions& options = {});
LOCKSTEP_API Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                           const ConvOptions& options = {});

struct ConvTransposeOptions {
  PerDimension stride = 1;
  PerDimension padding = 0;         ///< Elements cut off the result, before and after each dimension.
  PerDimension output_padding = 0;  ///< Elements added at the end: fewer than the stride or than the dilation.
  std::int64_t groups = 1;
  PerDimension dilation = 1;
};

/// The gradient of a convolution with respect to its input. weight: [channels, out channels / groups, window...]; bias:
/// [out channels], or undefined. The result has (size - 1) stride - 2 padding + dilation (window - 1) + output_padding
/// + 1 elements in each spatial dimension.
LOCKSTEP_API Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                     const ConvTransposeOptions& options = {});
LOCKSTEP_API Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                     const ConvTransposeOptions& options = {});
LOCKSTEP_API Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                     const ConvTransposeOptions& options = {});

}  // namespace lockstep
