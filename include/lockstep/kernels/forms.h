// A kernel's forms: a kernel is compiled for the host, and by nvcc also for GPUs. (In tests that emulate a GPU, g++
// compiles the form for GPUs.) A kernel without a call operator has only the form for GPUs: launch it only on devices
// that launch grids.
#pragma once

#include <stdexcept>
#include <type_traits>

#include <lockstep/runtime/kernel.h>

#if defined(__CUDACC__) || defined(LOCKSTEP_CUDA_EMULATED)
#include <lockstep/kernels/cuda/dispatch.h>
#define LOCKSTEP_DEVICE_FORMS 1
#define LOCKSTEP_GRIDS(...) (__VA_ARGS__)  // the function that enqueues a kernel's grids
#else
#define LOCKSTEP_GRIDS(...) nullptr  // no device form
#endif

namespace lockstep {

/// True if this source file is compiled for GPUs too.
static constexpr bool kHasDeviceForms =
#ifdef LOCKSTEP_DEVICE_FORMS
    true;
#else
    false;
#endif

/// The kernel with all its compiled forms, as backends take it.
template <class Kernel>
decltype(auto) in_all_forms(const Kernel& kernel) {
#ifdef LOCKSTEP_DEVICE_FORMS
  return gpu::Dispatched<Kernel>{kernel};
#else
  if constexpr (std::is_invocable_v<const Kernel&, const KernelContext&>)
    return (kernel);  // by reference
  else
    return [](const KernelContext&) { throw std::logic_error("a kernel that has only a GPU form ran on the host"); };
#endif
}

}  // namespace lockstep
