// The way from tensors to Backend::fused.
#pragma once

#include <initializer_list>

#include <lockstep/tensor/tensor.h>

#include "runtime/fused.h"

namespace lockstep {

/// An operand. An undefined tensor is an absent one.
struct FusedTensor {
  const Tensor& tensor;
  bool written = false;
};

/// Does `op` (without operands) on the tensors' device as one operation, on its current stream, if the device offers
/// that; else nothing is done, and false. All tensors live on one device. Workspace comes from the caching allocator.
bool run_fused(FusedOp op, std::initializer_list<FusedTensor> operands);

}  // namespace lockstep
