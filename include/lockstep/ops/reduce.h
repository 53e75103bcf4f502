// Reductions over all dimensions (0-dim results) or over the given ones, which stay with size 1 if `keep_dims`. An
// empty list means all dimensions, except in any() and all(), where it means none, as in PyTorch. The order of
// summation depends only on the shape, not on the number of threads. Differentiable if the result is floating. Throw
// ShapeError for a dimension that is out of range or repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Integers and bool give int64, which wraps around.
LOCKSTEP_API Tensor sum(const Tensor& x);
LOCKSTEP_API Tensor sum(const Tensor& x, const Shape& dims, bool keep_dims = false);
/// Floating dtypes only, else DTypeError.
LOCKSTEP_API Tensor mean(const Tensor& x);
LOCKSTEP_API Tensor mean(const Tensor& x, const Shape& dims, bool keep_dims = false);
/// Integers and bool give int64, which wraps around. The gradient is exact for zeros.
LOCKSTEP_API Tensor prod(const Tensor& x);
LOCKSTEP_API Tensor prod(const Tensor& x, const Shape& dims, bool keep_dims = false);

/// bool: true if any element, or if every element, is nonzero. Any dtype; NaN counts as nonzero.
LOCKSTEP_API Tensor any(const Tensor& x);
LOCKSTEP_API Tensor any(const Tensor& x, const Shape& dims, bool keep_dims = false);
LOCKSTEP_API Tensor all(const Tensor& x);
LOCKSTEP_API Tensor all(const Tensor& x, const Shape& dims, bool keep_dims = false);

/// Sums over the dimensions that broadcasting to x's shape repeated: the result has the shape `sizes`.
LOCKSTEP_API Tensor sum_to(const Tensor& x, const Shape& sizes);

/// The greatest and the least element; NaN if any element is NaN. Equal elements share the gradient evenly, and so do
/// NaNs. Throw ShapeError if there are no elements to reduce, DTypeError for bool.
LOCKSTEP_API Tensor amax(const Tensor& x, const Shape& dims, bool keep_dims = false);
LOCKSTEP_API Tensor amin(const Tensor& x, const Shape& dims, bool keep_dims = false);
LOCKSTEP_API Tensor max(const Tensor& x);
LOCKSTEP_API Tensor min(const Tensor& x);

/// The result of reductions along a dimension. Also a tuple: auto [values, indices] = ..., std::get<0>(...), std::tie.
struct ValuesAndIndices : std::tuple<Tensor, Tensor> {
  ValuesAndIndices() = default;
  ValuesAndIndices(Tensor of_values, Tensor of_indices)
      : std::tuple<Tensor, Tensor>(of_values, of_indices),
        values(std::move(of_values)),
        indices(std::move(of_indices)) {}

  Tensor values;   ///< The elements that were selected.
  Tensor indices;  ///< The index of each value along the dimension, int64.
};
/// Also returns the index of the first of equal elements, which gets the whole gradient.
LOCKSTEP_API ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keep_dims = false);
LOCKSTEP_API ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keep_dims = false);
/// Only the index, int64: along `dim`, or in row-major order over all elements.
LOCKSTEP_API Tensor argmax(const Tensor& x);
LOCKSTEP_API Tensor argmax(const Tensor& x, std::int64_t dim, bool keep_dims = false);
LOCKSTEP_API Tensor argmin(const Tensor& x);
LOCKSTEP_API Tensor argmin(const Tensor& x, std::int64_t dim, bool keep_dims = false);

struct VarianceOptions {
  /// The sum of squares is divided by count - correction: 1 for a sample, 0 for the whole population.
  std::int64_t correction = 1;
  bool keep_dims = false;
};
/// Computed in two passes, so that a large mean costs no precision. Floating dtypes only, else DTypeError.
LOCKSTEP_API Tensor var(const Tensor& x);
LOCKSTEP_API Tensor var(const Tensor& x, const Shape& dims, const VarianceOptions& options = {});
/// The standard deviation: sqrt(var).
LOCKSTEP_API Tensor stddev(const Tensor& x);
LOCKSTEP_API Tensor stddev(const Tensor& x, const Shape& dims, const VarianceOptions& options = {});
/// The variance and the mean: auto [variance, mean] = var_mean(x, 1).
LOCKSTEP_API std::tuple<Tensor, Tensor> var_mean(const Tensor& x);
LOCKSTEP_API std::tuple<Tensor, Tensor> var_mean(const Tensor& x, const Shape& dims,
                                                 const VarianceOptions& options = {});
/// The standard deviation and the mean.
LOCKSTEP_API std::tuple<Tensor, Tensor> std_mean(const Tensor& x);
LOCKSTEP_API std::tuple<Tensor, Tensor> std_mean(const Tensor& x, const Shape& dims,
                                                 const VarianceOptions& options = {});

/// The p-norm (sum |x|^p)^(1/p) of vectors; p = infinity: the greatest magnitude, -infinity: the least, 0: the number
/// of nonzero elements. Floating dtypes only, else DTypeError. The gradient at a zero vector is 0.
LOCKSTEP_API Tensor norm(const Tensor& x, double p = 2);
LOCKSTEP_API Tensor norm(const Tensor& x, double p, const Shape& dims, bool keep_dims = false);

/// The median of all elements; of the two middle elements, the lower one. NaN if any element is NaN. Equal elements
/// share the gradient evenly. Numeric dtypes. Throw ShapeError if there are no elements to reduce.
LOCKSTEP_API Tensor median(const Tensor& x);
/// Also returns the index of one of the equal elements, which gets the whole gradient.
LOCKSTEP_API ValuesAndIndices median(const Tensor& x, std::int64_t dim, bool keep_dims = false);

/// log(sum(exp(x))), without overflow. Floating dtypes only, else DTypeError.
LOCKSTEP_API Tensor logsumexp(const Tensor& x, const Shape& dims, bool keep_dims = false);

}  // namespace lockstep

/// Makes ValuesAndIndices a tuple of two tensors for structured bindings.
template <>
struct std::tuple_size<lockstep::ValuesAndIndices> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, lockstep::ValuesAndIndices> {
  using type = lockstep::Tensor;
};
