// The three operations of a convolution, made of copies and matrix products, for devices whose Backend::fused declines
// them. Not recorded. Copies the windows of some images at a time: as many as fit into kMostColumnBytes.
#pragma once

#include "ops/conv/convolution.h"

namespace lockstep::composed {

inline constexpr std::int64_t kMostColumnBytes = std::int64_t(64) << 20;

/// Each function overwrites its last operand, which is dense and row-major. float32 or float64; no operand is empty.
void convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& geometry,
                 const Tensor& y);
void convolution_input_gradient(const Tensor& g, const Tensor& weight, const ConvGeometry& geometry, const Tensor& x);
void convolution_weight_gradient(const Tensor& x, const Tensor& g, const ConvGeometry& geometry, const Tensor& weight);

}  // namespace lockstep::composed
