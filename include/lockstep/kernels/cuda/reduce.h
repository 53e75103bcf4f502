// Reductions on a GPU. If the input is reduced along rows, a warp or a block combines the elements of one output. If a
// dense matrix is reduced along its columns, neighbouring threads combine neighbouring columns. If there are too few
// outputs to fill a GPU, each is reduced in pieces, whose results a second kernel combines. The order of combination
// depends on shape and layout alone; there are no atomics.
#pragma once

#include <lockstep/kernels/cuda/combine.h>
#include <lockstep/kernels/cuda/pack.h>
#include <lockstep/kernels/cuda/read_ahead.h>
#include <lockstep/kernels/cuda/walk.h>
#include <lockstep/kernels/visit.h>

namespace lockstep {
template <class R>
struct ReduceKernel;
}

namespace lockstep::gpu {

/// How a reduction of `length` elements to each of `outputs` outputs is split into pieces.
struct ReductionSplit {
  std::int64_t outputs, length;
  std::int64_t pieces = 1;  // of each output
  std::int64_t piece_length;

  static constexpr std::int64_t kEnoughBlocks = 1024;  // to fill a GPU
  static constexpr std::int64_t kWhole = 16;           // piece lengths are multiples of it: pieces begin at whole packs

  /// `blocks`: the blocks that the kernel has if no output is split. A piece has at least `least` elements.
  ReductionSplit(std::int64_t outputs_, std::int64_t length_, std::int64_t blocks, std::int64_t least)
      : outputs(outputs_), length(length_) {
    const std::int64_t wanted = kEnoughBlocks / blocks, possible = length / least;
    pieces = std::max<std::int64_t>(1, std::min(wanted, possible));
    piece_length = (length + pieces - 1) / pieces;
    if (pieces > 1) piece_length = (piece_length + kWhole - 1) / kWhole * kWhole;
  }
};

// Each row of at least kLongRow elements has a block, each shorter row a warp. If there are kManyRows rows or more, the
// limit is kLongRowOfMany.
inline constexpr std::int64_t kLongRow = 1 << 10, kLongRowOfMany = 1 << 13,
                              kManyRows = ReductionSplit::kEnoughBlocks * kWarps;

/// The input of a reduction, with the walks over kept and reduced dimensions.
template <class In>
struct ReductionInput {
  const In* in;
  Walk<2> kept;
  Walk<1> reduced;
};

/// Stores results: with one piece, finished results to `out`; otherwise accumulators to [outputs, pieces] in the
/// workspace.
template <class R, class Out>
struct ReductionOutput {
  using A = typename R::Accumulator;
  Out* out;
  A* partial;  // null when there is one piece

  __device__ void store(const R& reducer, const ReductionSplit& split, std::int64_t output, std::int64_t to,
                        std::int64_t piece, A value) const {
    if (partial)
      partial[output * split.pieces + piece] = value;
    else
      out[to] = Out(reducer.finish(value, split.length));
  }
};

template <Team kTeam, class R, class Out, class In>
__global__ void reduce_rows(const R reducer, const ReductionSplit split, const ReductionInput<In> from,
                            const ReductionOutput<R, Out> target) {
  constexpr int kSize = int(kTeam);
  const int thread = int(threadIdx.x) % kSize;
  const std::int64_t teams = std::int64_t(gridDim.x) * (kThreads / kSize);
  // combine_team synchronizes the threads of a team, so all of them get the same r: they run the same iterations.
  for (std::int64_t r = first_item() / kSize; r < split.outputs * split.pieces; r += teams) {
    const std::int64_t output = r / split.pieces, piece = r % split.pieces;
    const auto at = from.kept(output);
    const std::int64_t end = std::min(split.length, (piece + 1) * split.piece_length);
    auto value = reducer.identity();
    const In* const in = from.in + at[1];
    read_ahead(
        piece * split.piece_length + thread, end, kSize, [&](std::int64_t i) { return in[from.reduced(i)[0]]; },
        [&](In element) { value = reducer.combine(value, reducer.load(ComputeType<In>(element))); });
    value = combine_team<kTeam>(reducer, value);
    if (thread == 0) target.store(reducer, split, output, at[0], piece, value);
  }
}

/// The blocks of reduce_dense_rows that a multiprocessor must hold at once: 4 limits a thread to 64 registers, 3 to 80,
/// 0 sets no limit. With a limit nvcc uses these registers to load early; chains of many elements would not fit.
template <int kPack, class A>
inline constexpr int kResidentBlocks = [] {
  constexpr int kRegisters = kPack * std::max(1, int(sizeof(A) / 4));  // of the chains
  if (kRegisters <= 4 || (kRegisters <= 8 && std::is_same_v<A, float>)) return 4;
  return kRegisters <= 8 ? 3 : 0;
}();

/// Like reduce_rows, but for dense rows that begin at whole packs. Each position of a pack has its own chain of
/// combinations.
template <Team kTeam, int kPack, class R, class Out, class In>
__global__ void __launch_bounds__(kThreads, kResidentBlocks<kPack, typename R::Accumulator>)
    reduce_dense_rows(const R reducer, const ReductionSplit split, const In* in, const Walk<2> kept,
                      const ReductionOutput<R, Out> target) {
  using A = typename R::Accumulator;
  constexpr int kSize = int(kTeam);
  const int thread = int(threadIdx.x) % kSize;
  const std::int64_t teams = std::int64_t(gridDim.x) * (kThreads / kSize);
  for (std::int64_t r = first_item() / kSize; r < split.outputs * split.pieces; r += teams) {
    const std::int64_t output = r / split.pieces, piece = r % split.pieces;
    const auto at = kept(output);
    const In* const row = in + at[1];
    const std::int64_t end = std::min(split.length, (piece + 1) * split.piece_length), whole = end / kPack;
    A chains[kPack];
    for (A& chain : chains) chain = reducer.identity();
    read_ahead(
        piece * split.piece_length / kPack + thread, whole, kSize,
        [&](std::int64_t p) { return load_pack<kPack>(row + p * kPack); },
        [&](const Pack<In, kPack>& elements) {
          for (int k = 0; k < kPack; ++k)
            chains[k] = reducer.combine(chains[k], reducer.load(ComputeType<In>(elements.values[k])));
        });
    if (whole * kPack + thread < end)  // the elements behind the last whole pack
      chains[0] = reducer.combine(chains[0], reducer.load(ComputeType<In>(row[whole * kPack + thread])));
    for (int half = kPack / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) chains[k] = reducer.combine(chains[k], chains[k + half]);
    const A value = combine_team<kTeam>(reducer, chains[0]);
    if (thread == 0) target.store(reducer, split, output, at[0], piece, value);
  }
}

/// True if all rows are dense and begin at whole packs.
template <int kPack, class In>
bool has_dense_rows(const In* in, const Geometry<2>& kept, const Geometry<1>& reduced) {
  if (reduced.sizes.rank() != 1 || reduced.strides[0][0] != 1 || !is_aligned<kPack>(in)) return false;
  for (int d = 0; d < kept.sizes.rank(); ++d)
    if (kept.strides[1][d] % kPack != 0) return false;
  return true;
}

/// `in` is [length, outputs], with rows `pitch` elements apart. A block (32, 8) reduces 32 columns with 8 threads each.
template <class R, class Out, class In>
__global__ void reduce_columns(const R reducer, const ReductionSplit split, const In* in, std::int64_t pitch,
                               const ReductionOutput<R, Out> target) {
  using A = typename R::Accumulator;
  __shared__ A of_rows[kWarps][kWarp];
  const std::int64_t column = std::int64_t(blockIdx.x) * kWarp + threadIdx.x;
  const std::int64_t piece = blockIdx.y;
  const std::int64_t end = std::min(split.length, (piece + 1) * split.piece_length);
  A value = reducer.identity();
  if (column < split.outputs)
    for (std::int64_t r = piece * split.piece_length + threadIdx.y; r < end; r += kWarps)
      value = reducer.combine(value, reducer.load(ComputeType<In>(in[r * pitch + column])));
  of_rows[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  if (threadIdx.y != 0 || column >= split.outputs) return;
  for (int row = 1; row < kWarps; ++row) value = reducer.combine(value, of_rows[row][threadIdx.x]);
  target.store(reducer, split, column, column, piece, value);
}

/// Combines the pieces' results, one warp for each output.
template <class R, class Out>
__global__ void reduce_partial(const R reducer, const ReductionSplit split, const Walk<2> kept,
                               const ReductionOutput<R, Out> target) {
  const int lane = int(threadIdx.x) % kWarp;
  const std::int64_t warps = item_step() / kWarp;
  for (std::int64_t output = first_item() / kWarp; output < split.outputs; output += warps) {
    auto value = reducer.identity();
    for (std::int64_t p = lane; p < split.pieces; p += kWarp)
      value = reducer.combine(value, target.partial[output * split.pieces + p]);
    value = combine_warp(reducer, value);
    if (lane == 0) target.out[kept(output)[0]] = Out(reducer.finish(value, split.length));
  }
}

/// Enqueues the kernel for operands of element types Out and In.
template <class R, class Out, class In>
void enqueue_reduce(const ReduceKernel<R>& kernel, const KernelContext& context) {
  using A = typename R::Accumulator;
  const auto& of = kernel.of;
  const In* const in = reinterpret_cast<const In*>(of.in);
  const std::int64_t outputs = of.kept.numel, length = of.reduced.numel;
  const ReductionSplit split = of.columns ? ReductionSplit(outputs, length, (outputs + kWarp - 1) / kWarp, 1 << 8)
                                          : ReductionSplit(outputs, length, outputs, 1 << 12);
  static_assert(ReductionSplit::kEnoughBlocks * kWarp * sizeof(A) <= KernelContext::kWorkspaceBytes);
  const Walk<2> kept(of.kept);
  const ReductionOutput<R, Out> target{reinterpret_cast<Out*>(of.out),
                                       split.pieces > 1 ? static_cast<A*>(context.workspace) : nullptr};
  const std::int64_t rows = split.outputs * split.pieces;
  const bool by_warps = split.length < (rows < kManyRows ? kLongRow : kLongRowOfMany);
  if (of.columns) {
    const dim3 grid(unsigned((split.outputs + kWarp - 1) / kWarp), unsigned(split.pieces));
    launch_grid(reduce_columns<R, Out, In>, grid, dim3(kWarp, kWarps), context, kernel.reducer, split, in,
                of.reduced.strides[0][0], target);
  } else {
    constexpr int kPack = kPackOf<In>;
    const unsigned blocks = blocks_for(rows, by_warps ? kWarps : 1);
    if (has_dense_rows<kPack>(in, of.kept, of.reduced))
      launch_grid(by_warps ? reduce_dense_rows<Team::one_warp, kPack, R, Out, In>
                           : reduce_dense_rows<Team::whole_block, kPack, R, Out, In>,
                  blocks, kThreads, context, kernel.reducer, split, in, kept, target);
    else
      launch_grid(by_warps ? reduce_rows<Team::one_warp, R, Out, In> : reduce_rows<Team::whole_block, R, Out, In>,
                  blocks, kThreads, context, kernel.reducer, split, ReductionInput<In>{in, kept, Walk<1>(of.reduced)},
                  target);
  }
  if (split.pieces > 1)
    launch_grid(reduce_partial<R, Out>, blocks_for(split.outputs, kWarps), kThreads, context, kernel.reducer, split,
                kept, target);
}

}  // namespace lockstep::gpu
