// Rearranges channels into pixels and pixels into channels (Shi et al. 2016), and reorders channels (Zhang et al.
// 2018). Any dtype. Differentiable. PyTorch's order of elements. Throw ShapeError for sizes that are not multiples of
// the factor, InvalidArgument for a factor below 1.
#pragma once

#include <cstdint>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// [..., C * factor^2, H, W] -> [..., C, H * factor, W * factor].
LOCKSTEP_API Tensor pixel_shuffle(const Tensor& x, std::int64_t factor);
/// [..., C, H * factor, W * factor] -> [..., C * factor^2, H, W]: the inverse of pixel_shuffle.
LOCKSTEP_API Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor);
/// x: [N, C, ...]. Takes the first channel of each group, then the second of each group, and so on.
LOCKSTEP_API Tensor channel_shuffle(const Tensor& x, std::int64_t groups);

}  // namespace lockstep
