// CUDA's device functions for g++, on the emulator: thread indices, barriers, shuffles and launches.
#pragma once

#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include <cuda_runtime_api.h>

#include "cuda/emulation/emulator.h"
#include "cuda/fake/fake_cuda.h"

// Blocks run one at a time, so shared memory can be static, and AddressSanitizer guards it.
#undef __shared__
#define __shared__ static

// nvcc's register hints have no effect.
#undef __launch_bounds__
#define __launch_bounds__(...)

// Indices of the running thread.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

inline void __syncthreads(std::source_location site = std::source_location::current()) {
  lockstep::emulation::synchronize_threads(site);
}

// Kernels use it only to keep loads in their place.
inline unsigned __activemask() { return 0xffffffffU; }
inline void __syncwarp(unsigned) {}

template <class T>
T emulated_shuffle(unsigned mask, T value, unsigned lane, std::source_location site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = lockstep::emulation::shuffle(mask, bits, lane, site);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta,
                   std::source_location site = std::source_location::current()) {
  const unsigned lane = lockstep::emulation::this_lane();
  return emulated_shuffle(mask, value, lane + delta < 32 ? lane + delta : lane, site);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, std::source_location site = std::source_location::current()) {
  return emulated_shuffle(mask, value, unsigned(lane) % 32, site);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int other, std::source_location site = std::source_location::current()) {
  return emulated_shuffle(mask, value, (lockstep::emulation::this_lane() ^ unsigned(other)) % 32, site);
}

namespace lockstep::emulation {

/// Replaces cudaLaunchKernelEx.
template <class... Parameters>
cudaError_t launch_kernel(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                          const std::type_identity_t<Parameters>&... arguments) {
  void* places[] = {const_cast<std::remove_const_t<Parameters>*>(&arguments)..., nullptr};
  return cudaLaunchKernelExC(config, KernelHandle(kernel), places);
}

}  // namespace lockstep::emulation

#define cudaLaunchKernelEx ::lockstep::emulation::launch_kernel
