// Order along a dimension, and running sums. Sorts are stable, NaN counts as greater than every number, and the values
// are differentiable. Throw ShapeError for a dimension out of range.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// The values in order, and their indices in x.
LOCKSTEP_API ValuesAndIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
/// Only the indices of sort(), int64.
LOCKSTEP_API Tensor argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
/// The `count` greatest (or least) values in order, and their indices. Throws ShapeError unless 0 <= count <= size.
LOCKSTEP_API ValuesAndIndices topk(const Tensor& x, std::int64_t count, std::int64_t dim = -1, bool greatest = true);

/// out[i] = x[0] + ... + x[i]. Integers and bool give int64, which wraps around.
LOCKSTEP_API Tensor cumsum(const Tensor& x, std::int64_t dim);
/// out[i] = x[0] * ... * x[i]. Integers and bool give int64, which wraps around. The gradient does not divide by
/// elements, so it is exact for zeros. Differentiable to any order.
LOCKSTEP_API Tensor cumprod(const Tensor& x, std::int64_t dim);

/// x[i + 1] - x[i] along `dim`, applied `n` times; for bool, true where the two neighbours differ. `prepend` and
/// `append`, if defined, are first concatenated to x. Throws ShapeError for a 0-dim x, InvalidArgument for n below 0.
LOCKSTEP_API Tensor diff(const Tensor& x, std::int64_t n = 1, std::int64_t dim = -1, const Tensor& prepend = {},
                         const Tensor& append = {});

/// The `k`th least value, from 1 on, and its index; equal elements count in their order in x. Throws ShapeError unless
/// 1 <= k <= size.
LOCKSTEP_API ValuesAndIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool keep_dims = false);

/// The q-quantile of all elements, or along `dim`. If the quantile lies between two elements, "linear" interpolates,
/// "lower" and "higher" take one of the two, "nearest" takes the nearer one, and "midpoint" their mean. NaN if any
/// element is NaN. Floating dtypes only, else DTypeError. q: a number in [0, 1], or a tensor of x's dtype, 0-dim or
/// 1-dim; a 1-dim q becomes the first dimension of the result. Throws InvalidArgument for another interpolation and for
/// a q out of range (a tensor q is checked only if it is on the CPU), ShapeError if there are no elements.
LOCKSTEP_API Tensor quantile(const Tensor& x, double q, std::optional<std::int64_t> dim = {}, bool keep_dims = false,
                             std::string_view interpolation = "linear");
LOCKSTEP_API Tensor quantile(const Tensor& x, const Tensor& q, std::optional<std::int64_t> dim = {},
                             bool keep_dims = false, std::string_view interpolation = "linear");

}  // namespace lockstep
