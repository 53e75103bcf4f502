// Softmax along one dimension, without overflow. Floating dtypes only, else DTypeError. The result has x's shape.
// Differentiable. Throw ShapeError for a dimension out of range.
#pragma once

#include <cstdint>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// exp(x) / sum(exp(x)).
LOCKSTEP_API Tensor softmax(const Tensor& x, std::int64_t dim);
/// log(softmax(x)), accurate even where softmax underflows.
LOCKSTEP_API Tensor log_softmax(const Tensor& x, std::int64_t dim);
/// softmax(-x).
LOCKSTEP_API Tensor softmin(const Tensor& x, std::int64_t dim);

struct GumbelSoftmaxOptions {
  double tau = 1;     ///< The temperature; 0 and below give InvalidArgument.
  bool hard = false;  ///< If true, the result is one-hot; its gradient is that of the soft result.
  std::int64_t dim = -1;
};
/// softmax((logits + noise) / tau): a differentiable draw of a class (Jang, Gu, Poole 2017; Maddison, Mnih, Teh 2017).
/// Like dropout's mask, the noise does not depend on the number of devices.
LOCKSTEP_API Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options = {});

}  // namespace lockstep
