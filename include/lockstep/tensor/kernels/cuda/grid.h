// What every CUDA kernel of this folder needs: its grid, its launch, and the index of a thread. The one file of the
// kernels that includes a header of CUDA. Compiled by nvcc, and in tests by g++ for an emulated GPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include <lockstep/core/error.h>
#include <lockstep/runtime/device.h>
#include <lockstep/runtime/kernel.h>

namespace lockstep::gpu {

inline constexpr int kThreads = 256;  ///< Of every block.
inline constexpr int kWarp = 32;
inline constexpr int kWarps = kThreads / kWarp;

/// Of kernels that stride over the grid. Tests take fewer, so that small tensors make them stride.
#ifdef LOCKSTEP_CUDA_EMULATED
inline std::int64_t max_blocks() { return emulation::settings().max_blocks; }
#else
inline constexpr std::int64_t max_blocks() { return 1 << 14; }
#endif

/// As many blocks as have a thread for each item, or fewer.
inline unsigned blocks_for(std::int64_t items, std::int64_t per_block = kThreads) {
  return unsigned(std::min(max_blocks(), (items + per_block - 1) / per_block));
}

/// Enqueues a grid of blocks on the context's stream. Throws BackendError if CUDA refuses it.
template <class... Parameters, class... Arguments>
void launch_grid(void (*kernel)(Parameters...), dim3 grid, dim3 block, const KernelContext& context,
                 const Arguments&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = static_cast<cudaStream_t>(context.native_stream);
  if (context.loader) context.loader->load(reinterpret_cast<const void*>(kernel));
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (error == cudaSuccess) return;
  cudaGetLastError();  // not for a later call to find
  throw BackendError("cudaLaunchKernelEx", int(error), Device::cuda(context.device).name(), cudaGetErrorString(error));
}

__device__ inline std::int64_t first_item() { return std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t item_step() { return std::int64_t(gridDim.x) * blockDim.x; }

}  // namespace lockstep::gpu
