// Initial values of parameters, set in place and not recorded: nn::init::kaiming_normal_(layer.weight). All but
// constant_() throw DTypeError unless the dtype is floating. The fan_in (fan_out) of a weight [out, in, ...] is `in`
// (`out`) times the product of the sizes of its other dimensions; a weight with fewer than two dimensions throws
// ShapeError.
#pragma once

#include <cstdint>

#include <lockstep/core/choice.h>
#include <lockstep/tensor/random.h>

namespace lockstep::nn::init {

/// The nonlinearity after a layer. Its gain keeps the variance equal from layer to layer.
enum class GainOf : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// The fan that the variance is divided by: `in` keeps the variance of activations, `out` that of gradients.
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

/// Returns the factor of the standard deviation: 1 (linear, sigmoid), 5/3 (tanh), sqrt(2) (relu), sqrt(2 / (1 +
/// param^2)) (leaky_relu), 3/4 (selu).
LOCKSTEP_API double calculate_gain(Choice<GainOf> nonlinearity, double param = 0.01);

struct KaimingOptions {
  double a = 0;                                      ///< The slope for negative x, with "leaky_relu".
  Choice<Fan> mode = Fan::in;                        ///< "fan_in" or "fan_out".
  Choice<GainOf> nonlinearity = GainOf::leaky_relu;  ///< The nonlinearity after the layer.
};

using lockstep::normal_;
using lockstep::uniform_;
LOCKSTEP_API void constant_(Tensor& tensor, double value);  ///< Sets every element to `value`.

/// Draw values with variance gain^2 * 2 / (fan_in + fan_out). Glorot, Bengio 2010.
LOCKSTEP_API void xavier_uniform_(Tensor& weight, double gain = 1);
LOCKSTEP_API void xavier_normal_(Tensor& weight, double gain = 1);

/// Draw values with variance gain^2 / fan. He, Zhang, Ren, Sun 2015.
LOCKSTEP_API void kaiming_uniform_(Tensor& weight, const KaimingOptions& options = {});
LOCKSTEP_API void kaiming_normal_(Tensor& weight, const KaimingOptions& options = {});

LOCKSTEP_API void zeros_(Tensor& tensor);  ///< Sets every element to 0.
LOCKSTEP_API void ones_(Tensor& tensor);   ///< Sets every element to 1.

/// Draws from a normal distribution truncated to [low, high]. Throws InvalidArgument unless both are finite and low <
/// high.
LOCKSTEP_API void trunc_normal_(Tensor& tensor, double mean = 0, double standard_deviation = 1, double low = -2,
                                double high = 2);

/// Sets a matrix to the identity. Throws ShapeError for other ranks.
LOCKSTEP_API void eye_(Tensor& matrix);
/// Sets a convolution's weight [out, in, ...] of 3 to 5 dimensions to the identity: the kernel from channel i to output
/// i is 1 in its middle, all else is 0. If `groups` > 1, each group of outputs gets an identity of its own. Throws
/// ShapeError or InvalidArgument.
LOCKSTEP_API void dirac_(Tensor& weight, std::int64_t groups = 1);
/// Sets the weight to gain times a matrix with orthonormal rows, or with orthonormal columns if it has fewer columns; a
/// weight of more than two dimensions is treated as a matrix whose rows are its slices along dimension 0. Computed on
/// the CPU (Saxe, McClelland, Ganguli 2013).
LOCKSTEP_API void orthogonal_(Tensor& weight, double gain = 1);
/// Draws from a normal distribution and zeroes the fraction `sparsity` of each column (Martens 2010). Throws ShapeError
/// unless `matrix` has two dimensions, InvalidArgument unless 0 <= sparsity <= 1.
LOCKSTEP_API void sparse_(Tensor& matrix, double sparsity, double standard_deviation = 0.01);

}  // namespace lockstep::nn::init
