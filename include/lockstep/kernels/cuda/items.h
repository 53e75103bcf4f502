// Kernels of independent items: `items()` is their number, `item(i)` computes one; a thread computes one item at a
// time. If items depend on the results of others, the kernel has `passes()` launches over all items: `item(pass, last,
// i)`, where `last` is true in the last pass.
#pragma once

#include <concepts>

#include <lockstep/kernels/cuda/grid.h>

namespace lockstep::gpu {

template <class Kernel>
concept HasPasses = requires(const Kernel& kernel, std::int64_t i) {
  { kernel.items() } -> std::same_as<std::int64_t>;
  { kernel.passes() } -> std::same_as<int>;
  kernel.item(0, true, i);
};
template <class Kernel>
concept HasItems = HasPasses<Kernel> || requires(const Kernel& kernel, std::int64_t i) {
  { kernel.items() } -> std::same_as<std::int64_t>;
  kernel.item(i);
};

template <class Kernel>
__global__ void run_items(const Kernel kernel, std::int64_t items) {
  for (std::int64_t i = first_item(); i < items; i += item_step()) kernel.item(i);
}

template <class Kernel>
__global__ void run_pass(const Kernel kernel, std::int64_t items, int pass, bool last) {
  for (std::int64_t i = first_item(); i < items; i += item_step()) kernel.item(pass, last, i);
}

template <HasItems Kernel>
void enqueue(const Kernel& kernel, const KernelContext& context) {
  const std::int64_t items = kernel.items();
  if (items == 0) return;
  if constexpr (HasPasses<Kernel>) {
    const int passes = kernel.passes();
    for (int pass = 0; pass < passes; ++pass)
      launch_grid(run_pass<Kernel>, blocks_for(items), kThreads, context, kernel, items, pass, pass + 1 == passes);
  } else {
    launch_grid(run_items<Kernel>, blocks_for(items), kThreads, context, kernel, items);
  }
}

}  // namespace lockstep::gpu
