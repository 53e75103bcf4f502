// Reductions over all dimensions (0-dim results) or over the given ones, which stay with size 1 if `keep_dims`. An
// empty list of dimensions means all of them, but for any and all none, as in PyTorch. One shape always combines in one
// order, whatever the number of threads. Differentiable where the result is floating. Throw ShapeError for a dimension
// that is not there or is repeated.
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
/// Integers and bool give int64, which wraps around. Exact where elements are zero.
LOCKSTEP_API Tensor prod(const Tensor& x);
LOCKSTEP_API Tensor prod(const Tensor& x, const Shape& dims, bool keep_dims = false);

/// bool: whether any element is not zero, and whether all are not. Of any dtype; NaN is not zero.
LOCKSTEP_API Tensor any(const Tensor& x);
LOCKSTEP_API Tensor any(const Tensor& x, const Shape& dims, bool keep_dims = false);
LOCKSTEP_API Tensor all(const Tensor& x);
LOCKSTEP_API Tensor all(const Tensor& x, const Shape& dims, bool keep_dims = false);

/// The sum over what broadcasting to x's shape repeated: the result has the shape `sizes`.
LOCKSTEP_API Tensor sum_to(const Tensor& x, const Shape& sizes);

/// The greatest and the least. NaN wins over every number. Equal ones share the gradient evenly, and so do NaNs.
/// Throw ShapeError where there is nothing to reduce, DTypeError for bool.
LOCKSTEP_API Tensor amax(const Tensor& x, const Shape& dims, bool keep_dims = false);
LOCKSTEP_API Tensor amin(const Tensor& x, const Shape& dims, bool keep_dims = false);
LOCKSTEP_API Tensor max(const Tensor& x);
LOCKSTEP_API Tensor min(const Tensor& x);

/// What reductions along a dimension give. A tuple too: auto [values, indices] = ..., std::get<0>(...), std::tie.
struct ValuesAndIndices : std::tuple<Tensor, Tensor> {
  ValuesAndIndices() = default;
  ValuesAndIndices(Tensor of_values, Tensor of_indices)
      : std::tuple<Tensor, Tensor>(of_values, of_indices),
        values(std::move(of_values)),
        indices(std::move(of_indices)) {}

  Tensor values;   ///< The elements.
  Tensor indices;  ///< int64, along the dimension.
};
/// With the place of the first of equal ones, which gets the whole gradient.
LOCKSTEP_API ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keep_dims = false);
LOCKSTEP_API ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keep_dims = false);
/// The place alone, int64: along `dim`, or in row-major order over all.
LOCKSTEP_API Tensor argmax(const Tensor& x);
LOCKSTEP_API Tensor argmax(const Tensor& x, std::int64_t dim, bool keep_dims = false);
LOCKSTEP_API Tensor argmin(const Tensor& x);
LOCKSTEP_API Tensor argmin(const Tensor& x, std::int64_t dim, bool keep_dims = false);

struct VarianceOptions {
  std::int64_t correction = 1;  ///< The squares are divided by count - correction: 1 for samples, 0 for all there is.
  bool keep_dims = false;
};
/// In two passes, so that a large mean costs no digits. Floating dtypes only, else DTypeError.
LOCKSTEP_API Tensor var(const Tensor& x);
LOCKSTEP_API Tensor var(const Tensor& x, const Shape& dims, const VarianceOptions& options = {});
/// The standard deviation: the root of var.
LOCKSTEP_API Tensor stddev(const Tensor& x);
LOCKSTEP_API Tensor stddev(const Tensor& x, const Shape& dims, const VarianceOptions& options = {});
/// Both: auto [variance, mean] = var_mean(x, 1).
LOCKSTEP_API std::tuple<Tensor, Tensor> var_mean(const Tensor& x);
LOCKSTEP_API std::tuple<Tensor, Tensor> var_mean(const Tensor& x, const Shape& dims,
                                                 const VarianceOptions& options = {});
/// The standard deviation and the mean.
LOCKSTEP_API std::tuple<Tensor, Tensor> std_mean(const Tensor& x);
LOCKSTEP_API std::tuple<Tensor, Tensor> std_mean(const Tensor& x, const Shape& dims,
                                                 const VarianceOptions& options = {});

/// The p-norm (sum |x|^p)^(1/p) of vectors; p = infinity: the greatest magnitude, -infinity: the least, 0: how many are
/// not 0. Floating dtypes only, else DTypeError. The gradient at a zero vector is 0.
LOCKSTEP_API Tensor norm(const Tensor& x, double p = 2);
LOCKSTEP_API Tensor norm(const Tensor& x, double p, const Shape& dims, bool keep_dims = false);

/// The middle of all elements in order, the lower one of two; NaN where there is one. Equal ones share the gradient
/// evenly. Numeric dtypes. Throw ShapeError where there is nothing to reduce.
LOCKSTEP_API Tensor median(const Tensor& x);
/// With the place of one of the equal ones, which gets the whole gradient.
LOCKSTEP_API ValuesAndIndices median(const Tensor& x, std::int64_t dim, bool keep_dims = false);

/// log(sum(exp(x))), without overflow. Floating dtypes only, else DTypeError.
LOCKSTEP_API Tensor logsumexp(const Tensor& x, const Shape& dims, bool keep_dims = false);

}  // namespace lockstep

/// A tuple of two tensors.
template <>
struct std::tuple_size<lockstep::ValuesAndIndices> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, lockstep::ValuesAndIndices> {
  using type = lockstep::Tensor;
};
