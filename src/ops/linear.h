// Linear layers that end with an activation.
#pragma once

#include <lockstep/tensor/tensor.h>

#include "runtime/fused_ops/activation.h"

namespace lockstep {

/// linear(), then relu() or gelu(). If autograd does not record, this is one product with an epilogue. (If it records,
/// these are two operations, because GELU's gradient needs the sum before the activation, and because cuBLASLt does not
/// document what its ReLU makes of a NaN, which training must not lose.)
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation);

}  // namespace lockstep
