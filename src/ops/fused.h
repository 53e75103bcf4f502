// Calls Backend::fused with tensors.
#pragma once

#include <initializer_list>

#include <lockstep/tensor/tensor.h>

#include "runtime/fused_ops/fused.h"

namespace lockstep {

/// An operand; may be undefined if the operation allows it.
struct FusedTensor {
  const Tensor& tensor;
  bool written = false;
};

/// Runs `op` (given without operands) as one operation on the current stream of the tensors' device. Returns false, and
/// does nothing, if the device does not offer it. All tensors are on one device. The workspace comes from the caching
/// allocator.
bool run_fused(FusedOp op, std::initializer_list<FusedTensor> operands);

/// True if run_fused() with the same arguments would run the operation.
bool offers_fused(FusedOp op, std::initializer_list<FusedTensor> operands);

}  // namespace lockstep
