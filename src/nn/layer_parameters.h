// Helpers of layers: initial values of parameters, and parameters that may be missing.
#pragma once

#include <cmath>

#include <lockstep/nn/parameter.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

namespace lockstep::nn {

/// The parameter or buffer; an undefined tensor if there is none.
inline Tensor tensor_or_none(const auto& state) { return state ? Tensor(*state) : Tensor(); }

/// A parameter on the device and of the dtype of `options`, uniform in +-1/sqrt(fan_in); 0 if fan_in is 0.
inline Parameter uniform_parameter(const Shape& sizes, double fan_in, const TensorOptions& options) {
  Tensor value = empty(sizes, {.dtype = options.dtype, .device = options.device});
  if (fan_in > 0)
    uniform_(value, -1 / std::sqrt(fan_in), 1 / std::sqrt(fan_in));
  else
    value.zero_();
  return Parameter(value);
}

}  // namespace lockstep::nn
