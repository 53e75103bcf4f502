// Attention and its gradient as kernels of our own, for 16-bit floats (docs/cuda.md): tiles of scores exist in
// registers only, so memory is linear in the lengths (Dao, "FlashAttention-2", 2023). Products are of 16-bit factors
// with float sums, by tensor cores. No atomics: the order of all sums depends only on the sizes. Safe from any thread.
#pragma once

#include <cstddef>
#include <optional>

#include <cuda_runtime_api.h>

#include "runtime/backend.h"

namespace lockstep::gpu {

bool is_attention(const FusedOp& op);

/// Returns the bytes of workspace of attention or of its gradient. Returns nullopt unless all tensors are float16 or
/// all bfloat16, with at most 128 features each, whose memory is contiguous along the features, and no dimension is
/// empty. `capability`: the first number of the card's compute capability, which must be at least 8.
std::optional<std::size_t> attention_workspace_size(const FusedOp& op, int capability);

/// Enqueues an operation that attention_workspace_size() accepts; the card of `stream` must be current. Returns CUDA's
/// error code; throws nothing. Repeated runs give the same bits.
cudaError_t run_attention(const FusedOp& op, void* workspace, cudaStream_t stream, KernelLoader& loader);

}  // namespace lockstep::gpu
