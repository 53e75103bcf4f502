// Samples images at positions that a tensor gives.
#pragma once

#include <string_view>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct GridSampleOptions {
  /// "bilinear" (trilinear for volumes), "nearest" or "bicubic" (Keys' convolution with a = -0.75).
  std::string_view mode = "bilinear";
  /// Values outside of the image: "zeros", the "border", or its "reflection".
  std::string_view padding_mode = "zeros";
  bool align_corners = false;  ///< True: -1 and 1 are the centers of the corner elements; false: the image's edges.
};
/// x [N, C, H, W] sampled at grid [N, H', W', 2] gives [N, C, H', W']; x [N, C, D, H, W] at grid [N, D', H', W', 3]
/// gives [N, C, D', H', W']. The grid's last dimension is (x, y) or (x, y, z), with x along W, each from -1 to 1. x and
/// grid have one floating dtype. PyTorch's semantics. Differentiable in both, to any order; gradients are summed in a
/// fixed order. Throws ShapeError, DTypeError, DeviceMismatch, InvalidArgument for another mode.
LOCKSTEP_API Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});

}  // namespace lockstep
