// Which device form a kernel has: its enqueue(), one of the patterns', or `items()` and `item(i)` of its own. Included
// by launch.h when kernels are compiled for GPUs too.
#pragma once

#include <lockstep/tensor/kernels/cuda/items.h>
#include <lockstep/tensor/kernels/cuda/map.h>
#include <lockstep/tensor/kernels/cuda/multi.h>
#include <lockstep/tensor/kernels/cuda/multi_output.h>
#include <lockstep/tensor/kernels/cuda/reduce.h>
#include <lockstep/tensor/kernels/cuda/rows.h>

namespace lockstep::gpu {

/// A kernel in both forms. What a backend gives it tells which is wanted.
template <class Kernel>
struct Dispatched {
  Kernel kernel;

  void operator()(const KernelContext& context) const {
    if (!context.native_stream) return kernel(context);
    if constexpr (requires { kernel.enqueue(context); }) {  // it knows which grids its operands' types have
      kernel.enqueue(context);
    } else {
      static_assert(
          requires { enqueue(kernel, context); }, "a kernel outside the patterns needs items() and item(i), or passes");
      enqueue(kernel, context);
    }
  }
};

}  // namespace lockstep::gpu
