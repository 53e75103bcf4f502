// Softmax along one dimension, without overflow. Floating dtypes only, else DTypeError. The result has x's shape.
// Differentiable. Throw ShapeError for a dimension that is not there.
#pragma once

#include <cstdint>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// exp(x) / sum(exp(x)).
LOCKSTEP_API Tensor softmax(const Tensor& x, std::int64_t dim);
/// log(softmax(x)), exact where softmax is too small for the dtype.
LOCKSTEP_API Tensor log_softmax(const Tensor& x, std::int64_t dim);

}  // namespace lockstep
