// Convolution as three bilinear operations. The gradients of each are the other two, so gradients of any order are made
// of these three.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// One number per spatial dimension. Padding is the same before and after.
struct ConvGeometry {
  Shape stride, padding, dilation;
  std::int64_t groups = 1;
};

// The callers check the shapes: x [N, C, spatial...], weight [K, C / groups, window...], y [N, K, spatial...]. All have
// one floating dtype.

/// bias: [K], or undefined.
Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& geometry);
/// g has y's shape. sizes: those of x.
Tensor convolution_input_gradient(const Tensor& g, const Tensor& weight, const Shape& sizes,
                                  const ConvGeometry& geometry);
/// `sizes`: the weight's. Computes the result into `place`. If `place` is undefined or autograd records the operation,
/// the result is a new tensor.
Tensor convolution_weight_gradient(const Tensor& x, const Tensor& g, const Shape& sizes, const ConvGeometry& geometry,
                                   const Tensor& place = {});

/// The sizes of y.
Shape convolution_sizes(const Shape& x, const Shape& weight, const ConvGeometry& geometry);

}  // namespace lockstep
