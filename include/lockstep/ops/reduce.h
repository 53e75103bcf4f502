// Reductions. Sums of one shape always add in one order, whatever the number of threads. Differentiable.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// The sum of all elements, 0-dim. Integers and bool give int64.
LOCKSTEP_API Tensor sum(const Tensor& x);
/// Over the given dimensions, which stay with size 1 if `keep_dims`. Throws ShapeError for a repeated dimension.
LOCKSTEP_API Tensor sum(const Tensor& x, const Shape& dims, bool keep_dims = false);
/// Floating dtypes only, else DTypeError.
LOCKSTEP_API Tensor mean(const Tensor& x);
LOCKSTEP_API Tensor mean(const Tensor& x, const Shape& dims, bool keep_dims = false);

/// The sum over what broadcasting to x's shape repeated: the result has the shape `sizes`.
LOCKSTEP_API Tensor sum_to(const Tensor& x, const Shape& sizes);

}  // namespace lockstep
