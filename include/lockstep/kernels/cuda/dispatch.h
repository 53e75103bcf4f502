// Chooses how a kernel runs on a GPU (its device form): by the kernel's own enqueue(), by the enqueue() of a kind of
// kernels (elementwise, reductions, rows), or, for a kernel with `items()` and `item(i)`, by one thread per item.
// Included by forms.h when kernels are compiled for GPUs too.
#pragma once

#include <lockstep/kernels/cuda/items.h>
#include <lockstep/kernels/cuda/map.h>
#include <lockstep/kernels/cuda/multi.h>
#include <lockstep/kernels/cuda/multi_output.h>
#include <lockstep/kernels/cuda/reduce.h>
#include <lockstep/kernels/cuda/rows.h>

namespace lockstep::gpu {

/// A kernel in its host form (the call operator) and its device form. It runs in its device form if the context has a
/// native stream. A kernel without a call operator has only the device form.
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
