// Elements in other places: mirrored, shifted, padded, cut to a triangle, repeated. Copies, for every dtype.
// Differentiable. Throw ShapeError for dimensions that are not there or are repeated.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// In reverse order along each of `dims`.
LOCKSTEP_API Tensor flip(const Tensor& x, const Shape& dims);
/// Shifted to higher places by shifts[i] along dims[i]; what leaves at the end comes in at the start.
LOCKSTEP_API Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims);
/// `padding` holds, from the last dimension on, the number of elements to add before and after; negative ones cut.
LOCKSTEP_API Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, double value = 0);
/// Of each matrix, the part on and below (tril) or above (triu) the diagonal, which may be moved up by `diagonal`;
/// zeros elsewhere.
LOCKSTEP_API Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
LOCKSTEP_API Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
/// The whole, `repeats[i]` times along dimension i. There may be more repeats than dimensions: these come first.
LOCKSTEP_API Tensor repeat(const Tensor& x, const Shape& repeats);
/// Each element `repeats` times in a row along `dim`.
LOCKSTEP_API Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::int64_t dim);

}  // namespace lockstep
