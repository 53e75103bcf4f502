// Windows of images as columns, and columns added up to images. Differentiable, twice too; every sum is in a fixed
// order. PyTorch's semantics. Throw ShapeError for what does not fit, InvalidArgument for numbers out of range.
#pragma once

#include <lockstep/ops/per_dimension.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct FoldOptions {
  PerDimension dilation = 1;  ///< The distance between neighbours in a window.
  PerDimension padding = 0;   ///< On both sides, of zeros.
  PerDimension stride = 1;
};

/// x: [N, C, H, W] or [C, H, W], any dtype. The result is [N, C * elements of a window, windows] (or without N), both
/// windows and their elements in row-major order.
LOCKSTEP_API Tensor unfold(const Tensor& x, const PerDimension& kernel_size, const FoldOptions& options = {});

/// Each element is the sum of all elements of windows that lie over it: the gradient of unfold. x: [N, C * elements of
/// a window, windows], or without N, floating. output_size: the one to three spatial sizes of the images. The result is
/// [N, C, output_size...].
LOCKSTEP_API Tensor fold(const Tensor& x, const Shape& output_size, const PerDimension& kernel_size,
                         const FoldOptions& options = {});

}  // namespace lockstep
