// Runs: all elements at one index of a dimension, such as a row of a matrix. Gathered by index, and added by index.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// An index whose run is zeros when runs are taken, and is ignored when runs are added.
struct SkippedRun {
  std::int64_t index = -1;  ///< -1: none.
};

/// x at index[0], index[1], ... along `dim`; zeros where the index is `skipped`. index: [count], int64, checked.
/// Differentiable: the gradient of the run `without_gradient` is 0.
Tensor take_runs(const char* op, const char* node, const Tensor& x, int dim, const Tensor& index,
                 SkippedRun skipped = {}, SkippedRun without_gradient = {});

/// Zeros of x's shape, but with `size` along `dim`, to which the runs of x are added at index[0], index[1], ... in this
/// order. Floating dtypes only. Differentiable.
Tensor add_runs(const char* op, const Tensor& x, int dim, const Tensor& index, std::int64_t size,
                SkippedRun skipped = {});

}  // namespace lockstep
