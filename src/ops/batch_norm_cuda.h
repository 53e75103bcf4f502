// The two grids of batch norm on a GPU (ops/batch_norm_kernel.h). No atomics: the order of all sums depends only on the
// shape and the memory layout.
#pragma once

#include <lockstep/kernels/cuda/pack.h>
#include <lockstep/kernels/cuda/rows.h>

#include "ops/batch_norm_kernel.h"

namespace lockstep::gpu {

/// A block computes two sums for each of its channels, over one piece. If kRows is true (the channels are last), a
/// block has several neighbouring channels, otherwise one channel.
template <bool kRows, int kPack, class Kernel>
__global__ void channel_sums(const Kernel kernel, const Divisor across, const Divisor packs_of_plane) {
  using T = typename Kernel::T;
  using C = typename Kernel::C;
  using Elements = Pack<T, kPack>;
  constexpr int kColumns = kRows ? kPack : 1;
  const ChannelPieces& pieces = kernel.pieces;
  const ChannelExtent& extent = pieces.extent;
  const TeamShape shape{kThreads / pieces.beside, pieces.beside};
  const RowTeam team(shape, false, 0, 1);
  const std::int64_t piece = across.quotient(blockIdx.x), block = blockIdx.x - piece * across.divisor();
  const std::int64_t channel = kRows ? (block * shape.beside + int(threadIdx.x) % shape.beside) * kPack : block;
  const std::int64_t end = std::min(pieces.length, (piece + 1) * pieces.piece);
  const int step = shape.size;

  const auto place = [&](std::int64_t i) {
    if constexpr (kRows) return i * extent.channels + channel;
    const std::int64_t image = packs_of_plane.quotient(i);
    return (image * extent.channels + channel) * extent.inner + (i - image * packs_of_plane.divisor()) * kPack;
  };
  const auto read = [&](const T* from, std::int64_t i) { return load_pack<kPack>(from + place(i)); };
  const auto each = [&](const auto& visit) {  // visit(column, x, g)
    const auto take = [&](const Elements& x, const Elements& g) {
      for (int k = 0; k < kPack; ++k) visit(k % kColumns, C(x.values[k]), C(g.values[k]));
    };
    const auto other = [&](const Elements& x, std::int64_t i) {
      if constexpr (Kernel::kIsGradient)
        return read(kernel.g, i);
      else
        return x;
    };
    if (kRows && channel >= extent.channels) return;
    std::int64_t i = piece * pieces.piece + int(threadIdx.x) / shape.beside;
    for (; i + step < end; i += 2 * step) {  // two packs at a time, so that their loads overlap
      const Elements first = read(kernel.x, i), second = read(kernel.x, i + step);
      const Elements first_g = other(first, i), second_g = other(second, i + step);
      take(first, first_g);
      take(second, second_g);
    }
    if (i < end) {
      const Elements last = read(kernel.x, i);
      take(last, other(last, i));
    }
  };
  const auto add = [](const auto& a, const auto& b) { return a + b; };
  const auto of_team = [&](const auto& mine) {
    return team.reduce(
        0, mine, [](const auto& sum, std::int64_t) { return sum; }, add);
  };

  C first[kColumns] = {}, second[kColumns] = {};
  if constexpr (Kernel::kIsGradient) {
    C mean[kColumns] = {};
    for (int k = 0; k < kColumns; ++k)
      if (channel + k < extent.channels) mean[k] = kernel.mean[channel + k];
    each([&](int k, C x, C g) {
      first[k] += g;
      second[k] += g * (x - mean[k]);
    });
    for (int k = 0; k < kColumns; ++k) {
      const TwoSums<C> both = of_team(TwoSums<C>{first[k], second[k]});
      first[k] = both.first;
      second[k] = both.second;
    }
  } else {
    each([&](int k, C x, C) { first[k] += x; });
    for (int k = 0; k < kColumns; ++k) first[k] = of_team(first[k]) / C(pieces.count_of(piece));
    each([&](int k, C x, C) { second[k] += (x - first[k]) * (x - first[k]); });
    for (int k = 0; k < kColumns; ++k) second[k] = of_team(second[k]);
  }
  if (!team.first() || channel >= extent.channels) return;
  C* const to = kernel.partial + 2 * piece * extent.channels + channel;
  for (int k = 0; k < kColumns; ++k) {
    to[k] = first[k];
    to[extent.channels + k] = second[k];
  }
}

/// The second grid adds the pieces' sums, one warp per channel.
template <class Kernel>
__global__ void channel_totals(const Kernel kernel) {
  using Total = typename Kernel::Total;
  const std::int64_t channels = kernel.pieces.extent.channels;
  const RowTeam team({kWarp, 1}, false, 0, 1);
  for (std::int64_t c = first_item() / kWarp; c < channels; c += item_step() / kWarp) {
    const Total total = team.reduce(
        kernel.pieces.pieces, Total{},
        [&](const Total& sum, std::int64_t p) {
          const auto* const of = kernel.partial + 2 * p * channels + c;
          return sum + kernel.total_of(p, of[0], of[channels]);
        },
        [](const Total& a, const Total& b) { return a + b; });
    if (team.first()) kernel.finish(c, total);
  }
}

template <bool kRows, class Kernel>
void enqueue_channel_sums(const Kernel& kernel, const KernelContext& context) {
  constexpr int kPack = kPackOf<typename Kernel::T>;
  const ChannelPieces& pieces = kernel.pieces;
  const auto blocks = unsigned(pieces.blocks_across() * pieces.pieces);
  const Divisor across(pieces.blocks_across()), packs(pieces.extent.inner / (kRows ? 1 : pieces.pack));
  const auto launch = [&](auto sums) { launch_grid(sums, blocks, kThreads, context, kernel, across, packs); };
  if (pieces.pack == kPack)
    launch(channel_sums<kRows, kPack, Kernel>);
  else
    launch(channel_sums<kRows, 1, Kernel>);
}

template <class Kernel>
void enqueue_batch_norm(const Kernel& kernel, const KernelContext& context) {
  if (kernel.pieces.extent.by_rows())
    enqueue_channel_sums<true>(kernel, context);
  else
    enqueue_channel_sums<false>(kernel, context);
  launch_grid(channel_totals<Kernel>, blocks_for(kernel.pieces.extent.channels, kWarps), kThreads, context, kernel);
}

}  // namespace lockstep::gpu

namespace lockstep {

template <class T>
void enqueue(const BatchStatisticsKernel<T>& kernel, const KernelContext& context) {
  gpu::enqueue_batch_norm(kernel, context);
}
template <class T>
void enqueue(const BatchGradientKernel<T>& kernel, const KernelContext& context) {
  gpu::enqueue_batch_norm(kernel, context);
}

}  // namespace lockstep
