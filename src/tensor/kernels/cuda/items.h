// Kernels of independent items: `items()` says how many, `item(i)` does one. A thread does one item at a time.
#pragma once

#include <concepts>

#include "tensor/kernels/cuda/grid.h"

namespace lockstep::gpu {

template <class Kernel>
concept HasItems = requires(const Kernel& kernel, std::int64_t i) {
  { kernel.items() } -> std::same_as<std::int64_t>;
  kernel.item(i);
};

template <class Kernel>
__global__ void run_items(const Kernel kernel, std::int64_t items) {
  for (std::int64_t i = first_item(); i < items; i += item_step()) kernel.item(i);
}

template <HasItems Kernel>
void enqueue(const Kernel& kernel, const KernelContext& context) {
  const std::int64_t items = kernel.items();
  if (items == 0) return;
  launch_grid(run_items<Kernel>, blocks_for(items), kThreads, context, kernel, items);
}

}  // namespace lockstep::gpu
