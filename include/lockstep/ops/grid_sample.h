// An image read at places that a tensor gives.
#pragma once

#include <string_view>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct GridSampleOptions {
  /// "bilinear" (of volumes trilinear), "nearest" or "bicubic" (Keys' convolution with a = -0.75).
  std::string_view mode = "bilinear";
  /// What lies outside: "zeros", the "border", or the "reflection".
  std::string_view padding_mode = "zeros";
  bool align_corners = false;  ///< -1 and 1 are the middles of the corner elements, not the edges of the image.
};
/// x [N, C, H, W] at grid [N, H', W', 2]: [N, C, H', W']; or x [N, C, D, H, W] at grid [N, D', H', W', 3]. The grid's
/// last dimension is (x, y) or (x, y, z): W comes first; from -1 to 1. Both of one floating dtype. PyTorch's semantics.
/// Differentiable in both, to any order; the gradient adds in a fixed order. Throws ShapeError, DTypeError,
/// DeviceMismatch, InvalidArgument for another mode.
LOCKSTEP_API Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});

}  // namespace lockstep
