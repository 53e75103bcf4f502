// First values of parameters, in place, unrecorded: nn::init::kaiming_normal_(layer.weight). Floating dtypes only, else
// DTypeError; but constant_() takes any. Fans are those of a weight [out, in, ...]: in, or out, times the sizes of the
// other dimensions; ShapeError where there are fewer than two.
#pragma once

#include <cstdint>

#include <lockstep/core/choice.h>
#include <lockstep/tensor/random.h>

namespace lockstep::nn::init {

/// What follows a layer. Each has a gain that keeps the variance from layer to layer.
enum class GainOf : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// Which fan keeps its variance: that of forward, or of backward.
enum class Fan : std::uint8_t { in, out };

}  // namespace lockstep::nn::init

template <>
struct lockstep::ChoiceNames<lockstep::nn::init::GainOf> {
  static constexpr const char* kOption = "nonlinearity";
  static constexpr std::string_view kNames[] = {"linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"};
};
template <>
struct lockstep::ChoiceNames<lockstep::nn::init::Fan> {
  static constexpr const char* kOption = "mode";
  static constexpr std::string_view kNames[] = {"fan_in", "fan_out"};
};

namespace lockstep::nn::init {

/// What the standard deviation is multiplied by: 1 (linear, sigmoid), 5/3 (tanh), sqrt(2) (relu),
/// sqrt(2 / (1 + param^2)) (leaky_relu), 3/4 (selu).
LOCKSTEP_API double calculate_gain(Choice<GainOf> nonlinearity, double param = 0.01);

struct KaimingOptions {
  double a = 0;                                      ///< The slope below 0, of "leaky_relu".
  Choice<Fan> mode = Fan::in;                        ///< "fan_in" or "fan_out".
  Choice<GainOf> nonlinearity = GainOf::leaky_relu;  ///< What follows the layer.
};

using lockstep::normal_;
using lockstep::uniform_;
LOCKSTEP_API void constant_(Tensor& tensor, double value);  ///< Every element.

/// Variance gain^2 2 / (fan_in + fan_out). Glorot, Bengio 2010.
LOCKSTEP_API void xavier_uniform_(Tensor& weight, double gain = 1);
LOCKSTEP_API void xavier_normal_(Tensor& weight, double gain = 1);

/// Variance gain^2 / fan. He, Zhang, Ren, Sun 2015.
LOCKSTEP_API void kaiming_uniform_(Tensor& weight, const KaimingOptions& options = {});
LOCKSTEP_API void kaiming_normal_(Tensor& weight, const KaimingOptions& options = {});

LOCKSTEP_API void zeros_(Tensor& tensor);  ///< Every element.
LOCKSTEP_API void ones_(Tensor& tensor);   ///< Every element.

/// The part of a normal distribution that is between low and high. InvalidArgument unless they are finite and
/// low < high.
LOCKSTEP_API void trunc_normal_(Tensor& tensor, double mean = 0, double standard_deviation = 1, double low = -2,
                                double high = 2);

/// The identity: of a matrix, else ShapeError.
LOCKSTEP_API void eye_(Tensor& matrix);
/// The identity as a convolution, weight [out, in, ...] of 3 to 5 dimensions: 1 at the middle of channel i of output i.
/// `groups` divides out and gets an identity each. Else ShapeError or InvalidArgument.
LOCKSTEP_API void dirac_(Tensor& weight, std::int64_t groups = 1);
/// Rows or columns, whichever are fewer, that are orthonormal, times gain; dimensions after the first count as one. On
/// the CPU (Saxe, McClelland, Ganguli 2013).
LOCKSTEP_API void orthogonal_(Tensor& weight, double gain = 1);
/// Normal, with this share of each column zero (Martens 2010). Of a matrix, else ShapeError; InvalidArgument unless
/// 0 <= sparsity <= 1.
LOCKSTEP_API void sparse_(Tensor& matrix, double sparsity, double standard_deviation = 0.01);

}  // namespace lockstep::nn::init
