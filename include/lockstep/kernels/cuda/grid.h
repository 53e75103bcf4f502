// Grids, launches and thread indices for all CUDA kernels of this folder. Only this file of the kernels includes a CUDA
// header. Compiled by nvcc, and in tests by g++ for an emulated GPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <lockstep/core/error.h>
#include <lockstep/runtime/device.h>
#include <lockstep/runtime/kernel.h>

namespace lockstep::gpu {

inline constexpr int kThreads = 256;  ///< Threads of every block.
inline constexpr int kWarp = 32;
inline constexpr int kWarps = kThreads / kWarp;

// max_blocks() bounds the grids of grid-stride loops. Tests use fewer blocks, so that small tensors make the loops
// stride.
#ifdef LOCKSTEP_CUDA_EMULATED
using emulation::KernelHandle;
inline std::int64_t max_blocks() { return emulation::settings().max_blocks; }
#else
using KernelHandle = const void*;  ///< CUDA's handle of a kernel: its function's address.
inline constexpr std::int64_t max_blocks() { return 1 << 14; }
#endif

/// The number of blocks for `items` items, `per_block` per block, but at most max_blocks().
inline unsigned blocks_for(std::int64_t items, std::int64_t per_block = kThreads) {
  return unsigned(std::min(max_blocks(), (items + per_block - 1) / per_block));
}

/// Enqueues a grid of blocks on the context's stream; `arguments` points to the kernel's arguments. Throws BackendError
/// if the launch fails. Compiled once for all kernels.
[[gnu::noinline]] inline void launch_grid(KernelHandle kernel, dim3 grid, dim3 block, const KernelContext& context,
                                          void** arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = static_cast<cudaStream_t>(context.native_stream);
  if (context.loader) context.loader->load(kernel);
  const cudaError_t error = cudaLaunchKernelExC(&config, kernel, arguments);
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which a later call would report
  throw BackendError("cudaLaunchKernelEx", int(error), Device::cuda(context.device).name(), cudaGetErrorString(error));
}

/// launch_grid() with the kernel's arguments by value, which are copied before it returns.
template <class... Parameters>
void launch_grid(void (*kernel)(Parameters...), dim3 grid, dim3 block, const KernelContext& context,
                 const std::type_identity_t<Parameters>&... arguments) {
  void* places[] = {const_cast<std::remove_const_t<Parameters>*>(&arguments)...};
  launch_grid(KernelHandle(kernel), grid, block, context, places);
}

__device__ inline std::int64_t first_item() { return std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t item_step() { return std::int64_t(gridDim.x) * blockDim.x; }

}  // namespace lockstep::gpu
