// Linear layers that end with an activation.
#pragma once

#include <lockstep/tensor/tensor.h>

#include "runtime/activation.h"

namespace lockstep {

/// linear(), and relu() or gelu() of its result. Where nothing is recorded, one product with an epilogue. (Where
/// something is, the two: GELU's gradient needs the sum, and no NaN may be lost in training.)
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation);

}  // namespace lockstep
