// Order along a dimension, and running sums. Sorting is stable, NaN counts as greater than every number, and the values
// are differentiable. Throw ShapeError for a dimension that is not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// The values in order, and the places they had.
LOCKSTEP_API ValuesAndIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
/// The places alone, int64.
LOCKSTEP_API Tensor argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
/// The `count` greatest (or least) in order, and their places. Throws ShapeError unless 0 <= count <= size.
LOCKSTEP_API ValuesAndIndices topk(const Tensor& x, std::int64_t count, std::int64_t dim = -1, bool greatest = true);

/// out[i] = x[0] + ... + x[i]. Integers and bool give int64, which wraps around.
LOCKSTEP_API Tensor cumsum(const Tensor& x, std::int64_t dim);
/// out[i] = x[0] * ... * x[i]. Integers and bool give int64, which wraps around. The gradient divides by no element, so
/// zeros are exact. Differentiable to any order.
LOCKSTEP_API Tensor cumprod(const Tensor& x, std::int64_t dim);

/// x[i + 1] - x[i] along `dim`, `n` times over; of bool whether the two differ. `prepend` and `append`, if defined, are
/// joined to x first. Throws ShapeError for a 0-dim x, InvalidArgument for n below 0.
LOCKSTEP_API Tensor diff(const Tensor& x, std::int64_t n = 1, std::int64_t dim = -1, const Tensor& prepend = {},
                         const Tensor& append = {});

/// The `k`th least, from 1 on, and its place: of equal ones the k - 1 first ones come before. Throws ShapeError unless
/// 1 <= k <= size.
LOCKSTEP_API ValuesAndIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool keep_dims = false);

/// The value below which the fraction q of the elements lies: of all, or along `dim`. Between the two elements that are
/// nearest it is "linear"; "lower" and "higher" take one of them, "nearest" the nearer one, "midpoint" their mean. NaN
/// where there is one. Floating dtypes only, else DTypeError. q: in [0, 1], a number, or a tensor of x's dtype, 0-dim
/// or 1-dim; a 1-dim one becomes the first dimension of the result. Throws InvalidArgument for a q outside (of a tensor
/// on the CPU alone) and another interpolation, ShapeError where there is nothing to reduce.
LOCKSTEP_API Tensor quantile(const Tensor& x, double q, std::optional<std::int64_t> dim = {}, bool keep_dims = false,
                             std::string_view interpolation = "linear");
LOCKSTEP_API Tensor quantile(const Tensor& x, const Tensor& q, std::optional<std::int64_t> dim = {},
                             bool keep_dims = false, std::string_view interpolation = "linear");

}  // namespace lockstep
