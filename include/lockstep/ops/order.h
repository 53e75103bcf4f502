// Order along a dimension, and running sums. Sorting is stable, NaN counts as greater than every number, and the values
// are differentiable. Throw ShapeError for a dimension that is not there.
#pragma once

#include <cstdint>

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

}  // namespace lockstep
