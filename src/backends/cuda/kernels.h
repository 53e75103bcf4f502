// The backend's own two kernels: a reduction over ranks that share a card, and the epilogue of a matrix product (bias,
// activation).
#pragma once

#include <array>
#include <cstddef>

#include <cuda_runtime_api.h>

#include "runtime/backend.h"

namespace lockstep::gpu {

/// targets[j][i] = sources[0][i] op sources[1][i] op ..., in this order; i < count. A target may be a source.
struct RankReductionArgs {
  static constexpr int kMaxRanks = 64;

  std::array<const void*, kMaxRanks> sources = {};
  std::array<void*, kMaxRanks> targets = {};
  int source_count = 0;
  int target_count = 0;
  std::size_t count = 0;
};

/// Returns CUDA's error code; throws nothing. Elements are combined as on the simulated devices.
cudaError_t reduce_ranks(const RankReductionArgs& reduction, DType dtype, ReduceOp op, cudaStream_t stream);

/// c = activation(beta c (+ bias)): a product whose k is 0, or, with beta = 1, the epilogue that cuBLASLt does not
/// support.
cudaError_t matmul_epilogue(const Matmul& matmul, cudaStream_t stream);

}  // namespace lockstep::gpu
