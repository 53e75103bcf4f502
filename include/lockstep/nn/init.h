// First values of parameters, in place, unrecorded: nn::init::kaiming_normal_(layer.weight). Floating dtypes only, else
// DTypeError; but constant_() takes any. Fans are those of a weight [out, in, ...]: in, or out, times the sizes of the
// other dimensions; ShapeError where there are fewer than two.
#pragma once

#include <cstdint>

#include <lockstep/tensor/random.h>

namespace lockstep::nn::init {

/// What follows the layer. Each has a gain that keeps the variance from layer to layer.
struct Gain {
  double value = 1;  ///< What the standard deviation is multiplied by.

  static constexpr Gain linear() { return {1}; }                      ///< For a layer without an activation.
  static constexpr Gain sigmoid() { return {1}; }                     ///< For a layer in front of sigmoid().
  static constexpr Gain tanh() { return {5. / 3}; }                   ///< For a layer in front of tanh().
  LOCKSTEP_API static Gain relu();                                    ///< For a layer in front of relu().
  LOCKSTEP_API static Gain leaky_relu(double negative_slope = 0.01);  ///< For a layer in front of leaky_relu().
  static constexpr Gain selu() { return {0.75}; }                     ///< For a layer in front of selu().
};

/// Which fan keeps its variance: that of forward, or of backward.
enum class Fan : std::uint8_t { in, out };

using lockstep::normal_;
using lockstep::uniform_;
LOCKSTEP_API void constant_(Tensor& tensor, double value);  ///< Every element.

/// Variance gain^2 2 / (fan_in + fan_out). Glorot, Bengio 2010.
LOCKSTEP_API void xavier_uniform_(Tensor& weight, Gain gain = Gain::linear());
LOCKSTEP_API void xavier_normal_(Tensor& weight, Gain gain = Gain::linear());

/// Variance gain^2 / fan. He, Zhang, Ren, Sun 2015.
LOCKSTEP_API void kaiming_uniform_(Tensor& weight, Gain gain = Gain::relu(), Fan fan = Fan::in);
LOCKSTEP_API void kaiming_normal_(Tensor& weight, Gain gain = Gain::relu(), Fan fan = Fan::in);

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
