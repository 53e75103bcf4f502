// The dimensions that a reduction reduces, and checks of its arguments.
#pragma once

#include <algorithm>

#include <lockstep/tensor/tensor.h>

#include "core/text.h"
#include "kernels/reduce/reduce.h"
#include "ops/dtypes.h"

namespace lockstep {

/// Throws ShapeError naming `op` for a dimension that is out of range or repeated.
inline DimMask mask_of(const char* op, const Shape& dims, int rank) {
  DimMask mask = {};
  for (const std::int64_t dim : dims) {
    bool& marked = mask[std::size_t(wrap_dim(op, dim, rank))];
    if (marked) throw ShapeError(text("[", op, "] expected each dimension once, got ", dims));
    marked = true;
  }
  return mask;
}

inline DimMask all_of(int rank) {
  DimMask mask = {};
  std::fill_n(mask.begin(), rank, true);
  return mask;
}

/// mask_of() for reductions in which an empty list of dimensions means all of them.
inline DimMask mask_or_all(const char* op, const Shape& dims, int rank) {
  return dims.empty() ? all_of(rank) : mask_of(op, dims, rank);
}

/// The masked dimensions.
inline Shape dims_of(const DimMask& mask, int rank) {
  Shape dims;
  for (int i = 0; i < rank; ++i)
    if (mask[std::size_t(i)]) dims.push_back(i);
  return dims;
}

/// The number of elements that each result reduces.
inline std::int64_t reduced_count(const Shape& sizes, const DimMask& mask) {
  std::int64_t count = 1;
  for (int i = 0; i < sizes.rank(); ++i)
    if (mask[std::size_t(i)]) count *= sizes[i];
  return count;
}

/// Throws ShapeError naming `op` if there are no elements to reduce: for reductions, such as a maximum, that need at
/// least one.
inline void check_not_empty(const char* op, const Shape& sizes, const DimMask& mask) {
  if (reduced_count(sizes, mask) == 0)
    throw ShapeError(text("[", op, "] expected at least one element to reduce, got ", sizes));
}

/// The elements of a tensor with all masked dimensions merged into one, for kernels that reduce a single dimension.
/// Differentiable; a view if possible.
struct MergedDims {
  Tensor x;
  int dim = 0;
};

inline MergedDims merge_dims(const Tensor& x, const DimMask& mask) {
  const Shape& sizes = x.sizes();
  Shape order, merged;
  for (int i = 0; i < sizes.rank(); ++i)
    if (!mask[std::size_t(i)]) {
      order.push_back(i);
      merged.push_back(sizes[i]);
    }
  if (order.rank() + 1 == sizes.rank())
    for (int i = 0; i < sizes.rank(); ++i)
      if (mask[std::size_t(i)]) return {x, i};
  merged.push_back(reduced_count(sizes, mask));
  for (int i = 0; i < sizes.rank(); ++i)
    if (mask[std::size_t(i)]) order.push_back(i);
  return {x.permute(order).reshape(merged), merged.rank() - 1};
}

}  // namespace lockstep
