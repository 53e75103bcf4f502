// The grids of group_norm on a GPU (ops/group_norm_kernel.h): one block per row, which reads the row in packs (vectors
// of up to 16 bytes) if the number of elements of a channel allows it. No atomics: the order of all sums depends only
// on the shape and the memory layout.
#pragma once

#include <lockstep/kernels/cuda/pack.h>
#include <lockstep/kernels/cuda/row_team.h>

#include "ops/group_norm_kernel.h"

namespace lockstep::gpu {

/// The mean and the scale of a row of `packs` packs.
template <int kPack, class T, class C>
__device__ NormRowStats<C> group_stats(const RowTeam& team, const T* row, std::int64_t packs, C eps) {
  const C length = C(packs * kPack);
  const auto sum_of = [&](const auto& value) {
    return sum_over(team, packs, [&](std::int64_t p) {
      const Pack<T, kPack> x = load_pack<kPack>(row + p * kPack);
      C sum = 0;
      unrolled<kPack>([&](int k) { sum += value(C(x.values[k])); });
      return sum;
    });
  };
  NormRowStats<C> stats{};
  stats.mean = sum_of([](C x) { return x; }) / length;
  const C squares = sum_of([&](C x) { return (x - stats.mean) * (x - stats.mean); });
  stats.scale = C(1) / std::sqrt(squares / length + eps);
  return stats;
}

template <int kPack, class Kernel>
__global__ void group_norm_rows(const Kernel kernel, const Divisor packs_of_channel) {
  using T = typename Kernel::T;
  using C = typename Kernel::C;
  using Elements = Pack<T, kPack>;
  const GroupExtent& extent = kernel.extent;
  const RowTeam team({kThreads, 1}, false, 0, 1);
  const std::int64_t packs = extent.length() / kPack;
  for (std::int64_t row = blockIdx.x; row < extent.rows(); row += gridDim.x) {
    const T* const x = kernel.x + row * packs * kPack;
    T* const y = kernel.y + row * packs * kPack;
    const NormRowStats<C> stats = group_stats<kPack>(team, x, packs, kernel.eps);
    const std::int64_t first = row % extent.groups * extent.of_group;  // the first channel of the row
    team.each(packs, [&](std::int64_t p) {
      const std::int64_t c = first + packs_of_channel.quotient(p);
      const C weight = kernel.weight ? C(kernel.weight[c]) : C(1), bias = kernel.bias ? C(kernel.bias[c]) : C(0);
      const Elements from = load_pack<kPack>(x + p * kPack);
      Elements to;
      unrolled<kPack>([&](int k) { to.values[k] = T(stats.normal(C(from.values[k])) * weight + bias); });
      store_pack(y + p * kPack, to);
    });
  }
}

/// If a group has many channels, a warp sums each channel; otherwise the whole block sums each channel.
template <int kPack, class Kernel>
__global__ void group_gradient_rows(const Kernel kernel, const Divisor packs_of_channel) {
  using T = typename Kernel::T;
  using C = typename Kernel::C;
  using Elements = Pack<T, kPack>;
  using Sums = TwoSums<C>;
  const GroupExtent& extent = kernel.extent;
  const RowTeam team({kThreads, 1}, false, 0, 1);
  const int threads = extent.of_group >= kWarps ? kWarp : kThreads;  // the threads that sum one channel
  const RowTeam of_channel({threads, 1}, false, 0, 1);
  const std::int64_t packs = extent.length() / kPack, channel_packs = packs_of_channel.divisor();
  const auto add = [](const Sums& a, const Sums& b) { return a + b; };
  for (std::int64_t row = blockIdx.x; row < extent.rows(); row += gridDim.x) {
    const T* const x = kernel.x + row * packs * kPack;
    const T* const g = kernel.g + row * packs * kPack;
    const auto x_at = [&](std::int64_t p) { return load_pack<kPack>(x + p * kPack); };
    const auto g_at = [&](std::int64_t p) { return load_pack<kPack>(g + p * kPack); };
    NormRowStats<C> stats = group_stats<kPack>(team, x, packs, kernel.eps);
    const std::int64_t image = row / extent.groups, first = (row - image * extent.groups) * extent.of_group;
    const auto weight_of = [&](std::int64_t c) { return kernel.weight ? C(kernel.weight[c]) : C(1); };
    Sums mine{};  // the sum of h, and the sum of h y
    for (std::int64_t n = int(threadIdx.x) / threads; n < extent.of_group; n += kThreads / threads) {
      const Sums sums = sum_over(of_channel, channel_packs, [&](std::int64_t p) {
        const Elements from = x_at(n * channel_packs + p), flow = g_at(n * channel_packs + p);
        Sums sum{};
        unrolled<kPack>([&](int k) {
          const C value = C(flow.values[k]);
          sum = sum + Sums{value, value * stats.normal(C(from.values[k]))};
        });
        return sum;
      });
      if (!of_channel.first()) continue;
      const std::int64_t c = first + n;
      C* const to = kernel.partial + image * Kernel::kSums * kernel.length + c;
      to[0] = sums.second;
      to[kernel.length] = sums.first;
      mine = mine + Sums{weight_of(c) * sums.first, weight_of(c) * sums.second};
    }
    if (!kernel.of_x) continue;
    const Sums both = team.reduce(
        0, mine, [](const Sums& same, std::int64_t) { return same; }, add);
    stats.shift = both.first / C(extent.length());
    stats.slope = both.second / C(extent.length());
    T* const out = kernel.of_x + row * packs * kPack;
    team.each(packs, [&](std::int64_t p) {
      const C weight = weight_of(first + packs_of_channel.quotient(p));
      const Elements from = x_at(p), flow = g_at(p);
      Elements to;
      unrolled<kPack>([&](int k) { to.values[k] = T(stats.gradient(weight * C(flow.values[k]), C(from.values[k]))); });
      store_pack(out + p * kPack, to);
    });
  }
}

/// Calls launch(std::integral_constant<int, elements of a pack>, packs of a channel).
template <class T, class Launch>
void by_group_packs(const GroupExtent& extent, bool aligned, const Launch& launch) {
  constexpr int kPack = kPackOf<T>;
  if (aligned && extent.inner % kPack == 0)
    launch(std::integral_constant<int, kPack>(), Divisor(extent.inner / kPack));
  else
    launch(std::integral_constant<int, 1>(), Divisor(extent.inner));
}

}  // namespace lockstep::gpu

namespace lockstep {

template <class T>
void enqueue(const GroupNormKernel<T>& kernel, const KernelContext& context) {
  const bool aligned = gpu::is_aligned<gpu::kPackOf<T>>(kernel.x) && gpu::is_aligned<gpu::kPackOf<T>>(kernel.y);
  gpu::by_group_packs<T>(kernel.extent, aligned, [&](auto pack, const gpu::Divisor& packs) {
    gpu::launch_grid(gpu::group_norm_rows<decltype(pack)::value, GroupNormKernel<T>>,
                     gpu::blocks_for(kernel.extent.rows(), 1), gpu::kThreads, context, kernel, packs);
  });
}

template <class T>
void enqueue(const GroupGradientKernel<T>& kernel, const KernelContext& context) {
  const auto is_whole = [](const T* data) { return !data || gpu::is_aligned<gpu::kPackOf<T>>(data); };
  const bool aligned = is_whole(kernel.x) && is_whole(kernel.g) && is_whole(kernel.of_x);
  gpu::by_group_packs<T>(kernel.extent, aligned, [&](auto pack, const gpu::Divisor& packs) {
    gpu::launch_grid(gpu::group_gradient_rows<decltype(pack)::value, GroupGradientKernel<T>>,
                     gpu::blocks_for(kernel.extent.rows(), 1), gpu::kThreads, context, kernel, packs);
  });
  if (!kernel.of_weight && !kernel.of_bias) return;
  const std::int64_t columns = GroupGradientKernel<T>::kSums * kernel.length;
  gpu::launch_grid(gpu::norm_gradient_columns<GroupGradientKernel<T>>, unsigned((columns + 7) / 8), gpu::kThreads,
                   context, kernel);
}

}  // namespace lockstep
