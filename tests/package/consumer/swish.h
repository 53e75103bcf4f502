// A user-defined operation.
#pragma once

#include <lockstep/tensor/tensor.h>

lockstep::Tensor swish(const lockstep::Tensor& x, const lockstep::Tensor& beta);
