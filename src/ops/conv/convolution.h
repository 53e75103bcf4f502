// Convolution as three bilinear operations. Each one's gradients are the two others, so gradients of any order are made
// of these three.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// One number for each spatial dimension. Padding is the same before and after.
struct ConvGeometry {
  Shape stride, padding, dilation;
  std::int64_t groups = 1;
};

// Shapes are checked by the callers: x [N, C, spatial...], weight [K, C / groups, window...], y [N, K, spatial...].
// All of one floating dtype.

/// bias: [K], or undefined.
Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& geometry);
/// g: of y's shape. sizes: those of x.
Tensor convolution_input_gradient(const Tensor& g, const Tensor& weight, const Shape& sizes,
                                  const ConvGeometry& geometry);
/// sizes: those of the weight. `place`: where the result is to lie, if it is not recorded; undefined for anywhere.
Tensor convolution_weight_gradient(const Tensor& x, const Tensor& g, const Shape& sizes, const ConvGeometry& geometry,
                                   const Tensor& place = {});

/// The sizes of y.
Shape convolution_sizes(const Shape& x, const Shape& weight, const ConvGeometry& geometry);

}  // namespace lockstep
