// Kernels that process rows (kernels/row_kernel.h), on a GPU. Each row has a team of threads: a part of a warp, a warp,
// or a block, depending on the row's length. If rows are strided, a block processes many at a time, so that
// neighbouring threads read neighbouring elements. Dense rows are read and written in packs (vectors of up to 16 bytes)
// if the function object allows it (cuda/row_packs.h). The order of combination depends on the shape and the layout
// alone; there are no atomics.
#pragma once

#include <algorithm>
#include <bit>
#include <utility>

#include <lockstep/kernels/cuda/row_packs.h>
#include <lockstep/kernels/cuda/row_team.h>
#include <lockstep/kernels/row_team.h>

namespace lockstep {
template <class F, class Out, class... In>
struct RowKernel;
}

namespace lockstep::gpu {

template <class F, class Out, class... In, std::size_t... I>
__device__ void run_row(const F& f, const RowTeam& team, bool idle, const RowsOf<1 + sizeof...(In)>& of,
                        const std::array<std::int64_t, 1 + sizeof...(In)>& at, std::index_sequence<I...>, Out* out,
                        const In*... in) {
  const RowOf<Out> to{out + at[0], of.lengths[0], of.steps[0]};
  if constexpr (!kTakesNoTeam<F, RowOf<Out>, RowOf<const In>...>)
    f(team, to, RowOf<const In>{in + at[I + 1], of.lengths[I + 1], of.steps[I + 1]}...);
  else if (!idle)
    f(to, RowOf<const In>{in + at[I + 1], of.lengths[I + 1], of.steps[I + 1]}...);
}

/// Each team takes one row at a time.
template <class F, class Out, class... In>
__global__ void run_rows(const F f, const TeamShape shape, const RowsOf<1 + sizeof...(In)> of, Out* __restrict__ out,
                         const In*... in) {
  const int group = int(threadIdx.x) / (shape.size * shape.beside);
  const std::int64_t place = group * shape.beside + int(threadIdx.x) % shape.beside;
  // All threads of a block run the same number of iterations, since teams may use the block's barriers. In the last
  // iteration some threads are idle.
  for (std::int64_t first = std::int64_t(blockIdx.x) * shape.rows(); first < of.rows;
       first += std::int64_t(gridDim.x) * shape.rows()) {
    const bool idle = first + place >= of.rows;
    run_row(f, RowTeam(shape, idle, blockIdx.y, gridDim.y), idle, of, of.outer(idle ? of.rows - 1 : first + place),
            std::index_sequence_for<In...>(), out, in...);
  }
}

/// The team shape for a kernel whose teams share the rows of operand `n`.
template <class F, class Out, class... In>
TeamShape shape_for(const RowKernel<F, Out, In...>& kernel, std::size_t n) {
  const Shape &sizes = kernel.outer.sizes, &strides = kernel.outer.strides[n];
  const int last = sizes.rank() - 1;
  const bool across = last >= 0 && sizes[last] >= TeamShape::kNeighbours && strides[last] < kernel.steps[n];
  return across ? TeamShape::across(kernel.lengths[n]) : TeamShape::along(kernel.lengths[n]);
}

/// A kernel's grid: its x dimension covers the rows, its y dimension the blocks that share a row.
struct RowGrid {
  TeamShape shape;
  unsigned blocks = 1;  // the number of blocks that share a row
};

template <class F, class Out, class... In>
RowGrid grid_for(const RowKernel<F, Out, In...>& kernel) {
  constexpr std::int64_t kPerThread = 8;  // the least elements per thread, if several blocks share a row
  constexpr std::int64_t kMostBlocks = 1024;
  const auto& lengths = kernel.lengths;
  if constexpr (kIndependentOperand<F> >= 0) {
    const TeamShape shape = shape_for(kernel, kIndependentOperand<F>);
    const std::int64_t wanted = lengths[kIndependentOperand<F>] / (kPerThread * shape.size);
    return {shape, std::bit_floor(unsigned(std::clamp<std::int64_t>(wanted, 1, kMostBlocks)))};
  } else if constexpr (kTakesNoTeam<F, RowOf<Out>, RowOf<const In>...>) {
    return {};
  } else {  // f reduces the longest input
    return {shape_for(kernel, std::size_t(std::max_element(lengths.begin() + 1, lengths.end()) - lengths.begin()))};
  }
}

template <class F, class Out, class... In, std::size_t... I>
void enqueue_rows(const RowKernel<F, Out, In...>& kernel, const RowsOf<1 + sizeof...(In)>& of,
                  const KernelContext& context, std::index_sequence<I...>) {
  const RowGrid grid = grid_for(kernel);
  launch_grid(run_rows<F, Out, In...>, dim3(blocks_for(of.rows, grid.shape.rows()), grid.blocks), kThreads, context,
              kernel.f, grid.shape, of, kernel.out, static_cast<const In*>(kernel.in[I])...);
}

template <class F, class Out, class... In>
void enqueue(const RowKernel<F, Out, In...>& kernel, const KernelContext& context) {
  constexpr std::index_sequence_for<In...> kInputs;
  constexpr int kOperands = 1 + sizeof...(In);
  const RowsOf<kOperands> of{kernel.outer.numel, Walk<kOperands>(kernel.outer), kernel.lengths, kernel.steps};
  if constexpr (kTakesPacks<F, Out, In...>)
    if (lies_in_packs(kernel, kInputs)) return enqueue_packs(kernel, of, context, kInputs);
  enqueue_rows(kernel, of, context, kInputs);
}

}  // namespace lockstep::gpu
