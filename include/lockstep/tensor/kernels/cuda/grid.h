// What every CUDA kernel of this folder needs: its grid, its launch, and the index of a thread. The one file of the
// kernels that includes a header of CUDA. Compiled by nvcc, and in tests by g++ for an emulated GPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <lockstep/core/error.h>
#include <lockstep/runtime/device.h>
#include <lockstep/runtime/kernel.h>

namespace lockstep::gpu {

inline constexpr int kThreads = 256;  ///< Of every block.
inline constexpr int kWarp = 32;
inline constexpr int kWarps = kThreads / kWarp;

// max_blocks(): of kernels that stride over the grid. Tests take fewer, so that small tensors make them stride.
#ifdef LOCKSTEP_CUDA_EMULATED
using emulation::KernelHandle;
inline std::int64_t max_blocks() { return emulation::settings().max_blocks; }
#else
using KernelHandle = const void*;  ///< What CUDA knows a kernel by: the address of its function.
inline constexpr std::int64_t max_blocks() { return 1 << 14; }
#endif

/// As many blocks as have a thread for each item, or fewer.
inline unsigned blocks_for(std::int64_t items, std::int64_t per_block = kThreads) {
  return unsigned(std::min(max_blocks(), (items + per_block - 1) / per_block));
}

/// Enqueues a grid of blocks on the context's stream; `arguments` are the places of the kernel's. Throws BackendError
/// if CUDA refuses it. Compiled once for all kernels.
[[gnu::noinline]] inline void launch_grid(KernelHandle kernel, dim3 grid, dim3 block, const KernelContext& context,
                                          void** arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = static_cast<cudaStream_t>(context.native_stream);
  if (context.loader) context.loader->load(kernel);
  const cudaError_t error = cudaLaunchKernelExC(&config, kernel, arguments);
  if (error == cudaSuccess) return;
  cudaGetLastError();  // not for a later call to find
  throw BackendError("cudaLaunchKernelEx", int(error), Device::cuda(context.device).name(), cudaGetErrorString(error));
}

/// The same with the kernel's arguments themselves. They have been copied when it returns.
template <class... Parameters>
void launch_grid(void (*kernel)(Parameters...), dim3 grid, dim3 block, const KernelContext& context,
                 const std::type_identity_t<Parameters>&... arguments) {
  void* places[] = {const_cast<std::remove_const_t<Parameters>*>(&arguments)...};
  launch_grid(KernelHandle(kernel), grid, block, context, places);
}

__device__ inline std::int64_t first_item() { return std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t item_step() { return std::int64_t(gridDim.x) * blockDim.x; }

}  // namespace lockstep::gpu
