// The gradient of reductions that select an element by its value: maximum, minimum, median.
#pragma once

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/reduce.h>

#include "ops/dtypes.h"
#include "ops/reduced_dims.h"

namespace lockstep {

/// Distributes g, the gradient of the picked elements, evenly over the elements of x that equal them, NaN included.
/// `picked` and g: x without the masked dimensions, or with them at size 1.
inline Tensor shared_evenly(const Tensor& g, const Tensor& x, const Tensor& picked, const DimMask& mask) {
  const Shape kept = reduced_sizes(x.sizes(), mask, true);
  const Tensor value = picked.detach().reshape(kept);
  const Tensor there = logical_or(eq(x, value), logical_and(isnan(x), isnan(value)));
  const Tensor equals = sum(there, dims_of(mask, x.dim()), true).to(wide_dtype(x.dtype()));
  return there.to(x.dtype()) * (g.reshape(kept) / equals).to(x.dtype());
}

}  // namespace lockstep
