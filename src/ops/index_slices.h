// Slices: all elements at one index of a dimension, such as a row of a matrix. Gathered by index, and added by index.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// An index whose slice is zeros when slices are gathered, and is ignored when slices are added.
struct IgnoredIndex {
  std::int64_t index = -1;  ///< -1: none.
};

/// x at index[0], index[1], ... along `dim`; zeros where the index is `ignored`. index: [count], int64, checked.
/// Differentiable: the gradient of the slice `without_gradient` is 0.
Tensor gather_slices(const char* op, const char* node, const Tensor& x, int dim, const Tensor& index,
                     IgnoredIndex ignored = {}, IgnoredIndex without_gradient = {});

/// Zeros of x's shape, but with `size` along `dim`, to which the slices of x are added at index[0], index[1], ... in
/// this order. Floating dtypes only. Differentiable. They are written to `place`, if that is given and has the dtype in
/// which the sums are computed.
Tensor scatter_add_slices(const char* op, const Tensor& x, int dim, const Tensor& index, std::int64_t size,
                          IgnoredIndex ignored = {}, const Tensor& place = {});

}  // namespace lockstep
