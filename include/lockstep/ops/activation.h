// Activations. Floating dtypes only, else DTypeError. Elementwise unless the function says otherwise. Differentiable to
// any order. tanh and sigmoid are in unary.h, softmax in softmax.h. Formulas and defaults are PyTorch's.
#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/core/choice.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

LOCKSTEP_API Tensor relu(const Tensor& x);                                      ///< max(x, 0)
LOCKSTEP_API Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);  ///< x > 0 ? x : negative_slope x
LOCKSTEP_API Tensor elu(const Tensor& x, double alpha = 1);                     ///< x > 0 ? x : alpha (exp(x) - 1)
/// x > 0 ? x : alpha (exp(x / alpha) - 1). Throws InvalidArgument for alpha 0.
LOCKSTEP_API Tensor celu(const Tensor& x, double alpha = 1);
LOCKSTEP_API Tensor selu(const Tensor& x);  ///< elu, scaled to preserve mean 0 and variance 1 (Klambauer et al. 2017).

/// How gelu() computes Phi: by the error function, or by an approximation with tanh.
enum class GeluForm { exact, tanh };

}  // namespace lockstep

template <>
struct lockstep::ChoiceNames<lockstep::GeluForm> {
  static constexpr const char* kOption = "approximate";
  static constexpr std::string_view kNames[] = {"none", "tanh"};
};

namespace lockstep {
/// x Phi(x), where Phi is the normal distribution function, or its tanh approximation (Hendrycks, Gimpel 2016).
LOCKSTEP_API Tensor gelu(const Tensor& x, Choice<GeluForm> approximate = GeluForm::exact);
LOCKSTEP_API Tensor silu(const Tensor& x);  ///< x sigmoid(x)
LOCKSTEP_API Tensor mish(const Tensor& x);  ///< x tanh(softplus(x))

/// x clamped to [min, max]; the gradient is 0 at the bounds and beyond. Throws InvalidArgument unless min <= max.
LOCKSTEP_API Tensor hardtanh(const Tensor& x, double min = -1, double max = 1);
LOCKSTEP_API Tensor relu6(const Tensor& x);        ///< hardtanh(x, 0, 6)
LOCKSTEP_API Tensor hardswish(const Tensor& x);    ///< x clamp(x + 3, 0, 6) / 6
LOCKSTEP_API Tensor hardsigmoid(const Tensor& x);  ///< clamp(x + 3, 0, 6) / 6

struct SoftplusOptions {
  double beta = 1;
  double threshold = 20;  ///< The result is x itself where beta x > threshold.
};
LOCKSTEP_API Tensor softplus(const Tensor& x, const SoftplusOptions& options = {});  ///< log(1 + exp(beta x)) / beta
LOCKSTEP_API Tensor logsigmoid(const Tensor& x);  ///< log(sigmoid(x)), without overflow
LOCKSTEP_API Tensor softsign(const Tensor& x);    ///< x / (1 + |x|)

/// Zero for |x| <= lambda; beyond that x (hardshrink), or x moved towards 0 by lambda (softshrink). Throw
/// InvalidArgument for a negative lambda.
LOCKSTEP_API Tensor hardshrink(const Tensor& x, double lambda = 0.5);
LOCKSTEP_API Tensor softshrink(const Tensor& x, double lambda = 0.5);
LOCKSTEP_API Tensor tanhshrink(const Tensor& x);  ///< x - tanh(x)
/// x > threshold ? x : value.
LOCKSTEP_API Tensor threshold(const Tensor& x, double threshold, double value);

/// a sigmoid(b), where a and b are the halves of x along `dim`. Throws ShapeError for an odd size.
LOCKSTEP_API Tensor glu(const Tensor& x, std::int64_t dim = -1);
/// x > 0 ? x : weight x. weight: one number, or one per channel, else ShapeError. Channels are x's dimension 1; an x
/// with fewer than two dimensions has one channel.
LOCKSTEP_API Tensor prelu(const Tensor& x, const Tensor& weight);

struct RreluOptions {
  double lower = 1. / 8;  ///< The smallest slope.
  double upper = 1. / 3;  ///< The largest slope.
  bool training = false;  ///< true: draws slopes; false: uses their mean.
};
/// leaky_relu with a slope per element: uniform in [lower, upper) in training, else their mean. Like dropout's mask,
/// the slopes do not depend on the number of devices. Throws InvalidArgument unless lower <= upper.
LOCKSTEP_API Tensor rrelu(const Tensor& x, const RreluOptions& options = {});

}  // namespace lockstep
