// First values of parameters, in place, unrecorded: nn::init::kaiming_normal_(layer.weight). Floating dtypes only, else
// DTypeError; but constant_() takes any. Fans are those of a weight [out, in, ...]: in, or out, times the sizes of the
// other dimensions; ShapeError where there are fewer than two.
#pragma once

#include <cstdint>

#include <lockstep/tensor/random.h>

namespace lockstep::nn::init {

/// What follows the layer. Each has a gain that keeps the variance from layer to layer.
struct Gain {
  double value = 1;

  static constexpr Gain linear() { return {1}; }
  static constexpr Gain sigmoid() { return {1}; }
  static constexpr Gain tanh() { return {5. / 3}; }
  LOCKSTEP_API static Gain relu();
  LOCKSTEP_API static Gain leaky_relu(double negative_slope = 0.01);
};

enum class Fan : std::uint8_t { in, out };

using lockstep::normal_;
using lockstep::uniform_;
LOCKSTEP_API void constant_(Tensor& tensor, double value);

/// Variance gain^2 2 / (fan_in + fan_out). Glorot, Bengio 2010.
LOCKSTEP_API void xavier_uniform_(Tensor& weight, Gain gain = Gain::linear());
LOCKSTEP_API void xavier_normal_(Tensor& weight, Gain gain = Gain::linear());

/// Variance gain^2 / fan. He, Zhang, Ren, Sun 2015.
LOCKSTEP_API void kaiming_uniform_(Tensor& weight, Gain gain = Gain::relu(), Fan fan = Fan::in);
LOCKSTEP_API void kaiming_normal_(Tensor& weight, Gain gain = Gain::relu(), Fan fan = Fan::in);

}  // namespace lockstep::nn::init
