// What every CUDA kernel of this folder needs: its stream, its grid, its errors, and the index of a thread.
// The one file of the kernels that includes a header of CUDA. Compiled by nvcc only.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include <lockstep/core/error.h>

#include "runtime/backend.h"

namespace lockstep::gpu {

inline constexpr int kThreads = 256;  ///< Of every block.
inline constexpr int kWarp = 32;
inline constexpr int kWarps = kThreads / kWarp;
inline constexpr std::int64_t kMaxBlocks = 1 << 14;  ///< Of kernels that stride over the grid.

inline cudaStream_t stream_of(const KernelContext& context) { return static_cast<cudaStream_t>(context.native_stream); }

/// As many blocks as have a thread for each item, or fewer.
inline unsigned blocks_for(std::int64_t items, std::int64_t per_block = kThreads) {
  return unsigned(std::min(kMaxBlocks, (items + per_block - 1) / per_block));
}

/// Throws BackendError if the last launch was refused.
inline void check_launch() {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    int device = -1;
    cudaGetDevice(&device);
    throw BackendError("cudaLaunchKernel", int(error), "cuda:" + std::to_string(device), cudaGetErrorString(error));
  }
}

__device__ inline std::int64_t first_item() { return std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t item_step() { return std::int64_t(gridDim.x) * blockDim.x; }

}  // namespace lockstep::gpu
