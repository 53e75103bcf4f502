// Linear layers that end with an activation.
#pragma once

#include <lockstep/tensor/tensor.h>

#include "runtime/fused_ops/activation.h"

namespace lockstep {

/// linear(), then relu() or gelu(). If autograd does not record, this is one product with an epilogue. (If it records,
/// these are two operations: GELU's gradient needs the sum, and training must not lose a NaN.)
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation);

}  // namespace lockstep
