// Activations: elementwise, floating dtypes only, else DTypeError. Differentiable, to any order. tanh and sigmoid are
// in unary.h. Formulas and defaults are PyTorch's.
#pragma once

#include <lockstep/ops/unary.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

LOCKSTEP_API Tensor relu(const Tensor& x);                                      ///< max(x, 0)
LOCKSTEP_API Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);  ///< x > 0 ? x : negative_slope x
LOCKSTEP_API Tensor elu(const Tensor& x, double alpha = 1);                     ///< x > 0 ? x : alpha (exp(x) - 1)
LOCKSTEP_API Tensor selu(const Tensor& x);  ///< elu scaled so that mean 0 and variance 1 stay (Klambauer et al. 2017).

enum class GeluForm { exact, tanh };
/// x Phi(x), Phi the normal distribution function, or its tanh approximation (Hendrycks, Gimpel 2016).
LOCKSTEP_API Tensor gelu(const Tensor& x, GeluForm form = GeluForm::exact);
LOCKSTEP_API Tensor silu(const Tensor& x);  ///< x sigmoid(x)
LOCKSTEP_API Tensor mish(const Tensor& x);  ///< x tanh(softplus(x))

/// x held between min and max; the gradient is 0 at the bounds and beyond. Throws InvalidArgument unless min <= max.
LOCKSTEP_API Tensor hardtanh(const Tensor& x, double min = -1, double max = 1);
LOCKSTEP_API Tensor hardswish(const Tensor& x);  ///< x clamp(x + 3, 0, 6) / 6

struct SoftplusOptions {
  double beta = 1;
  double threshold = 20;  ///< x itself where beta x is above.
};
LOCKSTEP_API Tensor softplus(const Tensor& x, const SoftplusOptions& options = {});  ///< log(1 + exp(beta x)) / beta

}  // namespace lockstep
