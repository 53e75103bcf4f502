// An operation of the consumer's own.
#pragma once

#include <lockstep/tensor/tensor.h>

lockstep::Tensor swish(const lockstep::Tensor& x, const lockstep::Tensor& beta);
