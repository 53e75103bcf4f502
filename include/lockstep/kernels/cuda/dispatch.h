// Chooses a kernel's device form: the kernel's own enqueue(), an enqueue() of the patterns, or the kernel's `items()`
// and `item(i)`. Included by forms.h when kernels are compiled for GPUs too.
#pragma once

#include <lockstep/kernels/cuda/items.h>
#include <lockstep/kernels/cuda/map.h>
#include <lockstep/kernels/cuda/multi.h>
#include <lockstep/kernels/cuda/multi_output.h>
#include <lockstep/kernels/cuda/reduce.h>
#include <lockstep/kernels/cuda/rows.h>

namespace lockstep::gpu {

/// A kernel in both forms. A context with a native stream selects the device form. A kernel without a call operator has
/// the device form alone.
template <class Kernel>
struct Dispatched {
  Kernel kernel;

  void operator()(const KernelContext& context) const {
    if constexpr (requires { kernel(context); })
      if (!context.native_stream) return kernel(context);
    if constexpr (requires { kernel.enqueue(context); }) {  // the kernel knows the grids for its operands' dtypes
      kernel.enqueue(context);
    } else {
      static_assert(
          requires { enqueue(kernel, context); }, "a kernel outside the patterns needs items() and item(i), or passes");
      enqueue(kernel, context);
    }
  }
};

}  // namespace lockstep::gpu
