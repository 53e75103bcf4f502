// Elementwise kernels with several outputs on a GPU. A thread computes one element at a time; a Walk (cuda/walk.h)
// computes its offsets. (There are no packs: fused LSTM and GRU cells, which use these kernels, work on parts of rows,
// which are rarely contiguous.)
#pragma once

#include <tuple>
#include <utility>

#include <lockstep/kernels/cuda/grid.h>
#include <lockstep/kernels/cuda/multi.h>
#include <lockstep/kernels/cuda/walk.h>
#include <lockstep/kernels/elementwise_kernel.h>

namespace lockstep::gpu {

template <class F, class... T, std::size_t... I>
__device__ void multi_output_at(const std::array<std::int64_t, sizeof...(T)>& at, std::index_sequence<I...>, const F& f,
                                T*... data) {
  update<F, T...>(f, (data + at[I])...);
}

template <class F, class... T>
__global__ void multi_output_strided(const F f, const Walk<int(sizeof...(T))> walk, std::int64_t count, T*... data) {
  for (std::int64_t i = first_item(); i < count; i += item_step())
    multi_output_at<F, T...>(walk(i), std::index_sequence_for<T...>(), f, data...);
}

template <class F, class... T, std::size_t... I>
void enqueue_multi_output(const F& f, const ElementwiseOperands<sizeof...(T)>& operands, const KernelContext& context,
                          std::index_sequence<I...>) {
  const std::int64_t count = operands.geometry.numel;
  launch_grid(multi_output_strided<F, T...>, blocks_for(count), kThreads, context, f,
              Walk<int(sizeof...(T))>(operands.geometry), count, reinterpret_cast<T*>(operands.data[I])...);
}
/// Enqueues the kernel for operands of element types T.
template <class F, class... T>
void enqueue_multi_output(const ElementwiseKernel<F, sizeof...(T)>& kernel, const KernelContext& context) {
  enqueue_multi_output<F, T...>(kernel.f, kernel.operands, context, std::index_sequence_for<T...>());
}

}  // namespace lockstep::gpu
