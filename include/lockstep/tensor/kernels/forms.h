// The forms that a kernel is compiled in: for the host, and by nvcc for GPUs as well. (g++ does it where tests emulate
// a GPU.)
#pragma once

#include <lockstep/runtime/kernel.h>

#if defined(__CUDACC__) || defined(LOCKSTEP_CUDA_EMULATED)
#include <lockstep/tensor/kernels/cuda/dispatch.h>
#define LOCKSTEP_DEVICE_FORMS 1
#define LOCKSTEP_GRIDS(...) (__VA_ARGS__)  // the function that enqueues a kernel's grids
#else
#define LOCKSTEP_GRIDS(...) nullptr  // there is none
#endif

namespace lockstep {

/// Whether this source is compiled for GPUs.
static constexpr bool kHasDeviceForms =
#ifdef LOCKSTEP_DEVICE_FORMS
    true;
#else
    false;
#endif

/// The kernel in all forms that it is compiled in, as a backend takes it.
template <class Kernel>
decltype(auto) in_all_forms(const Kernel& kernel) {
#ifdef LOCKSTEP_DEVICE_FORMS
  return gpu::Dispatched<Kernel>{kernel};
#else
  return (kernel);  // by reference
#endif
}

}  // namespace lockstep
