// The row pattern on a GPU. A row has a team of threads, as many as its length is worth: a part of a warp, a warp, or a
// block. Rows that lie across memory are taken many at once, so that neighbouring threads read neighbouring elements.
// What is combined with what depends on the shape and the layout alone: no atomics.
#pragma once

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include <lockstep/tensor/kernels/cuda/grid.h>
#include <lockstep/tensor/kernels/cuda/walk.h>
#include <lockstep/tensor/kernels/row_team.h>

namespace lockstep {
template <class F, class Out, class... In>
struct RowKernel;
}

namespace lockstep::gpu {

/// How a block's threads are divided into teams, of `size` threads each. `beside` of them alternate: a thread of each,
/// then the next of each. Powers of two. Either beside is 1 and a team is part of a warp, or size * beside is a block.
struct TeamShape {
  int size = 1;
  int beside = 1;

  static constexpr std::int64_t kLongRow = 1024;  // worth a block
  static constexpr int kNeighbours = 8;           // floats that are read from memory together

  /// For rows of `length` elements.
  static TeamShape along(std::int64_t length) {
    if (length > kLongRow) return {kThreads, 1};
    return {int(std::bit_ceil(std::uint64_t(std::min<std::int64_t>(length, kWarp)))), 1};
  }
  /// The same for rows whose neighbours' elements lie closer than their own.
  static TeamShape across(std::int64_t length) {
    if (length < kWarp) return {1, 1};
    const int beside = length > kLongRow ? kNeighbours : kWarp;
    return {kThreads / beside, beside};
  }

  LOCKSTEP_HD int rows() const { return kThreads / size; }  ///< Of a block.
};

/// One thread's part in its team, with OneThread's members.
class RowTeam {
 public:
  static constexpr bool kSerial = false;

  /// `blocks` of them, a power of two, share a row, of which this is number `block`; more than one do not reduce. Idle
  /// threads come along to every barrier, and do nothing else.
  __device__ RowTeam(TeamShape shape, bool idle, unsigned block, unsigned blocks)
      : shape_(shape), step_(std::int64_t(shape.size) * blocks) {
    const int member = int(threadIdx.x) / shape.beside % shape.size;
    begin_ = idle ? kNowhere : std::int64_t(block) * shape.size + member;
  }

  template <class A, class Step, class Combine>
  __device__ A reduce(std::int64_t length, A value, const Step& step, const Combine& combine) const {
    each(length, [&](std::int64_t i) { value = step(value, i); });
    const int lane = int(threadIdx.x) % kWarp, row = lane % shape_.beside;
    const int threads = shape_.size * shape_.beside;
    const int span = threads < kWarp ? threads : kWarp;  // lanes of one team, or of those that alternate
    for (int half = span / 2; half >= shape_.beside; half /= 2) value = combine(value, from_lane(value, lane + half));
    if (span == threads) return from_lane(value, lane / span * span);
    A* const of_warps = shared<A>();
    __syncthreads();  // an earlier use of the shared values has ended
    if (lane < shape_.beside) of_warps[threadIdx.x] = value;
    __syncthreads();
    value = of_warps[row];
    for (int warp = 1; warp < kWarps; ++warp) value = combine(value, of_warps[warp * kWarp + row]);
    return value;
  }

  template <class Visit>
  __device__ void each(std::int64_t length, const Visit& visit) const {
    std::int64_t i = begin_;
    for (; length - i > (kAtOnce - 1) * step_; i += kAtOnce * step_)
      for (int n = 0; n < kAtOnce; ++n) visit(i + n * step_);
    for (; i < length; i += step_) visit(i);
  }
  __device__ bool visits(std::int64_t i) const { return (i & (step_ - 1)) == begin_; }
  __device__ bool first() const { return begin_ == 0; }

 private:
  static constexpr int kAtOnce = 4;                                // elements of one member, whose loads then overlap
  static constexpr std::int64_t kNowhere = std::int64_t(1) << 62;  // no row is as long

  template <class A>
  __device__ static A* shared() {
    __shared__ A values[kThreads];
    return values;
  }

  /// Another lane's value; of a lane beyond the warp, some lane's.
  template <class A>
  __device__ static A from_lane(const A& value, int lane) {
    struct Words {
      std::uint32_t words[sizeof(A) / sizeof(std::uint32_t)];
    };
    static_assert(sizeof(Words) == sizeof(A));
    Words all = std::bit_cast<Words>(value);
    for (std::uint32_t& word : all.words) word = __shfl_sync(0xffffffffu, word, lane);
    return std::bit_cast<A>(all);
  }

  TeamShape shape_;
  std::int64_t begin_, step_;  // step_: a power of two
};

/// The rows of all operands, but for their places.
template <int N>
struct RowsOf {
  std::int64_t rows;
  Walk<N> outer;
  std::array<std::int64_t, N> lengths, steps;
};

template <class F, class Out, class... In, std::size_t... I>
__device__ void run_row(const F& f, const RowTeam& team, bool idle, const RowsOf<1 + sizeof...(In)>& of,
                        const std::array<std::int64_t, 1 + sizeof...(In)>& at, std::index_sequence<I...>, Out* out,
                        const In*... in) {
  const Row<Out> to{out + at[0], of.lengths[0], of.steps[0]};
  if constexpr (!kWorksAlone<F, Row<Out>, Row<const In>...>)
    f(team, to, Row<const In>{in + at[I + 1], of.lengths[I + 1], of.steps[I + 1]}...);
  else if (!idle)
    f(to, Row<const In>{in + at[I + 1], of.lengths[I + 1], of.steps[I + 1]}...);
}

/// Teams take rows in turn.
template <class F, class Out, class... In>
__global__ void run_rows(const F f, const TeamShape shape, const RowsOf<1 + sizeof...(In)> of, Out* __restrict__ out,
                         const In*... in) {
  const int group = int(threadIdx.x) / (shape.size * shape.beside);
  const std::int64_t place = group * shape.beside + int(threadIdx.x) % shape.beside;
  // All threads of a block make the same rounds, since teams may meet at its barriers; in the last one some are idle.
  for (std::int64_t first = std::int64_t(blockIdx.x) * shape.rows(); first < of.rows;
       first += std::int64_t(gridDim.x) * shape.rows()) {
    const bool idle = first + place >= of.rows;
    run_row(f, RowTeam(shape, idle, blockIdx.y, gridDim.y), idle, of, of.outer(idle ? of.rows - 1 : first + place),
            std::index_sequence_for<In...>(), out, in...);
  }
}

/// For a kernel whose teams divide the rows of operand `n`.
template <class F, class Out, class... In>
TeamShape shape_for(const RowKernel<F, Out, In...>& kernel, std::size_t n) {
  const Shape &sizes = kernel.outer.sizes, &strides = kernel.outer.strides[n];
  const int last = sizes.rank() - 1;
  const bool across = last >= 0 && sizes[last] >= TeamShape::kNeighbours && strides[last] < kernel.steps[n];
  return across ? TeamShape::across(kernel.lengths[n]) : TeamShape::along(kernel.lengths[n]);
}

/// A kernel's grid: its x dimension takes the rows, its y dimension divides them.
struct RowGrid {
  TeamShape shape;
  unsigned blocks = 1;  // to a row
};

template <class F, class Out, class... In>
RowGrid grid_for(const RowKernel<F, Out, In...>& kernel) {
  constexpr std::int64_t kPerThread = 8;  // elements of a row that several blocks share
  constexpr std::int64_t kMostBlocks = 1024;
  const auto& lengths = kernel.lengths;
  if constexpr (kElementsOf<F> >= 0) {
    const TeamShape shape = shape_for(kernel, kElementsOf<F>);
    const std::int64_t wanted = lengths[kElementsOf<F>] / (kPerThread * shape.size);
    return {shape, std::bit_floor(unsigned(std::clamp<std::int64_t>(wanted, 1, kMostBlocks)))};
  } else if constexpr (kWorksAlone<F, Row<Out>, Row<const In>...>) {
    return {};
  } else {  // reduces the longest input
    return {shape_for(kernel, std::size_t(std::max_element(lengths.begin() + 1, lengths.end()) - lengths.begin()))};
  }
}

template <class F, class Out, class... In>
void enqueue(const RowKernel<F, Out, In...>& kernel, const KernelContext& context) {
  constexpr int kOperands = 1 + sizeof...(In);
  const RowsOf<kOperands> of{kernel.outer.numel, Walk<kOperands>(kernel.outer), kernel.lengths, kernel.steps};
  const RowGrid grid = grid_for(kernel);
  std::apply(
      [&](const In*... in) {
        launch_grid(run_rows<F, Out, In...>, dim3(blocks_for(of.rows, grid.shape.rows()), grid.blocks), kThreads,
                    context, kernel.f, grid.shape, of, kernel.out, in...);
      },
      kernel.in);
}

}  // namespace lockstep::gpu
