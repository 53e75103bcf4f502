// Windows of images as columns (im2col), and columns summed into images (col2im). Twice differentiable; every sum has a
// fixed order. PyTorch's semantics. Throw ShapeError for shapes that do not fit, InvalidArgument for numbers out of
// range.
#pragma once

#include <lockstep/ops/per_dimension.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct FoldOptions {
  PerDimension dilation = 1;  ///< The distance between neighbours in a window.
  PerDimension padding = 0;   ///< Zeros on both sides.
  PerDimension stride = 1;
};

/// x: [N, C, H, W] or [C, H, W], any dtype. The result is [N, C * elements of a window, windows] (or without N), both
/// windows and their elements in row-major order.
LOCKSTEP_API Tensor unfold(const Tensor& x, const PerDimension& kernel_size, const FoldOptions& options = {});

/// The gradient of unfold: each element is the sum of the window elements that cover it. x: [N, C * elements of a
/// window, windows], or without N, floating. output_size: the one to three spatial sizes of the images. The result is
/// [N, C, output_size...].
LOCKSTEP_API Tensor fold(const Tensor& x, const Shape& output_size, const PerDimension& kernel_size,
                         const FoldOptions& options = {});

}  // namespace lockstep
