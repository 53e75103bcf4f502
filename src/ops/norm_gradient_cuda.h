// The gradients of norms on a GPU, in two grids: a team of threads processes some rows, one after the other, and keeps
// the row and the sums of its columns in registers; the second grid adds the sums of all teams. No atomics.
#pragma once

#include <lockstep/kernels/cuda/pack.h>
#include <lockstep/kernels/cuda/rows.h>

#include "ops/norm_gradient.h"

namespace lockstep::gpu {

template <class A>
__device__ A sum_of_team(const RowTeam& team, const A& mine) {
  return team.reduce(
      0, mine, [](const A& sum, std::int64_t) { return sum; }, [](const A& a, const A& b) { return a + b; });
}

/// The first grid for rows of whole packs. A thread has at most kPacks packs of a row.
template <int kPack, int kPacks, class Kernel>
__global__ void norm_gradient_packs(const Kernel kernel, const TeamShape shape) {
  using T = typename Kernel::T;
  using C = typename Kernel::C;
  using X = typename Kernel::X;
  using Weights = Pack<typename Kernel::W, kPack>;
  constexpr int kOwned = kPacks * kPack;
  const int member = int(threadIdx.x) % shape.size;
  const std::int64_t piece = std::int64_t(blockIdx.x) * shape.rows() + int(threadIdx.x) / shape.size;
  const std::int64_t packs = kernel.length / kPack;
  C products[kOwned] = {}, sums[kOwned] = {};
  // All threads of a block run the same iterations, because the threads of a team may synchronize by a barrier of the
  // whole block.
  for (std::int64_t n = 0; n < kernel.rows_of_piece; ++n) {
    const std::int64_t r = piece * kernel.rows_of_piece + n;
    const bool idle = r >= kernel.rows;
    const RowTeam team(shape, idle, 0, 1);
    const auto owned = [&](int p) { return !idle && member + p * shape.size < packs; };
    const auto place = [&](int p) { return (member + p * shape.size) * std::int64_t(kPack); };
    Pack<X, kPack> x[kPacks] = {};
    Pack<T, kPack> g[kPacks] = {};
    unrolled<kPacks>([&](int p) {
      if (owned(p)) {
        x[p] = load_pack<kPack>(kernel.x + r * kernel.length + place(p));
        g[p] = load_pack<kPack>(kernel.g + r * kernel.length + place(p));
      }
    });
    const auto each = [&](const auto& visit) {  // visits the elements by their index in the registers
      unrolled<kPacks>([&](int p) {
        if (owned(p)) unrolled<kPack>([&](int k) { visit(p * kPack + k); });
      });
    };
    const auto x_at = [&](int i) { return C(x[i / kPack].values[i % kPack]); };
    const auto g_at = [&](int i) { return C(g[i / kPack].values[i % kPack]); };
    NormRowStats<C> stats{};
    if constexpr (Kernel::kCentered) {
      C sum = 0;
      each([&](int i) { sum += x_at(i); });
      stats.mean = sum_of_team(team, sum) / C(kernel.length);
    }
    C squares = 0;
    each([&](int i) { squares += (x_at(i) - stats.mean) * (x_at(i) - stats.mean); });
    stats.scale = C(1) / std::sqrt(sum_of_team(team, squares) / C(kernel.length) + kernel.eps);
    // Calls visit(p, weights, added) for the owned packs, and loads the weights of four packs, and what is added to
    // their gradients, before it visits the first: of one that is not owned, those of the row's last.
    constexpr int kAhead = std::min(kPacks, 4);
    const auto each_weighted = [&](const X* added_row, const auto& visit) {
      unrolled<kPacks / kAhead>([&](int group) {
        Weights weights[kAhead] = {};
        Pack<X, kPack> added[Kernel::kHasBranch ? kAhead : 1] = {};
        const auto place_of = [&](int w) { return std::min(place(group * kAhead + w), kernel.length - kPack); };
        if (kernel.weight) unrolled<kAhead>([&](int w) { weights[w] = load_pack<kPack>(kernel.weight + place_of(w)); });
        if constexpr (Kernel::kHasBranch)
          if (added_row) unrolled<kAhead>([&](int w) { added[w] = load_pack<kPack>(added_row + place_of(w)); });
        unrolled<kAhead>([&](int w) {
          if (owned(group * kAhead + w)) visit(group * kAhead + w, weights[w], added[Kernel::kHasBranch ? w : 0]);
        });
      });
    };
    const auto weighted = [&](C value, const Weights& w, int k) {
      return kernel.weight ? value * C(w.values[k]) : value;
    };
    TwoSums<C> both{};
    each_weighted(nullptr, [&](int p, const Weights& w, const Pack<X, kPack>&) {
      unrolled<kPack>([&](int k) {
        const int i = p * kPack + k;
        const C y = stats.normal(x_at(i)), h = weighted(g_at(i), w, k);
        both = both + TwoSums<C>{h, h * y};
        products[i] += g_at(i) * y;
        if constexpr (Kernel::kSums > 1) sums[i] += g_at(i);
      });
    });
    if (!kernel.of_x) continue;
    both = sum_of_team(team, both);
    if constexpr (Kernel::kCentered) stats.shift = both.first / C(kernel.length);
    stats.slope = both.second / C(kernel.length);
    const X* const added_row = Kernel::kHasBranch && kernel.added && !idle ? kernel.added + r * kernel.length : nullptr;
    each_weighted(added_row, [&](int p, const Weights& w, const Pack<X, kPack>& added) {
      Pack<X, kPack> out;
      Pack<T, kPack> of_branch;
      unrolled<kPack>([&](int k) {
        const int i = p * kPack + k;
        C value = stats.gradient(weighted(g_at(i), w, k), x_at(i));
        if (Kernel::kHasBranch && added_row) value += C(added.values[k]);
        out.values[k] = X(value);
        of_branch.values[k] = T(value);
      });
      store_pack(kernel.of_x + r * kernel.length + place(p), out);
      if (Kernel::kHasBranch && kernel.of_branch)
        store_pack(kernel.of_branch + r * kernel.length + place(p), of_branch);
    });
  }
  if (!kernel.partial || piece >= kernel.pieces()) return;
  C* const to = kernel.sums_of(piece);
  unrolled<kPacks>([&](int p) {
    if (member + p * shape.size >= packs) return;
    const std::int64_t c = (member + p * shape.size) * std::int64_t(kPack);
    using Sums = Pack<C, kPack>;
    Sums of_products, of_sums;
    unrolled<kPack>([&](int k) {
      of_products.values[k] = products[p * kPack + k];
      of_sums.values[k] = sums[p * kPack + k];
    });
    store_pack(to + c, of_products);
    if constexpr (Kernel::kSums > 1) store_pack(to + kernel.length + c, of_sums);
  });
}

/// The first grid for any rows. A thread keeps the sums of its columns in memory.
template <class Kernel>
__global__ void norm_gradient_rows(const Kernel kernel, const TeamShape shape) {
  using T = typename Kernel::T;
  using C = typename Kernel::C;
  const std::int64_t piece = std::int64_t(blockIdx.x) * shape.rows() + int(threadIdx.x) / shape.size;
  C* const to = kernel.sums_of(piece);
  for (std::int64_t n = 0; n < kernel.rows_of_piece; ++n) {
    const std::int64_t r = piece * kernel.rows_of_piece + n;
    const bool idle = r >= kernel.rows;
    const RowTeam team(shape, idle, 0, 1);
    const T* const g = kernel.g + r * kernel.length;
    const typename Kernel::X* const x = kernel.x + r * kernel.length;
    const auto sum = [&](const auto& value) { return sum_over(team, kernel.length, value); };
    const auto x_at = [&](std::int64_t i) { return C(x[i]); };
    const auto h_at = [&](std::int64_t i) { return kernel.weighted(C(g[i]), i); };
    NormRowStats<C> stats;
    find_scale<Kernel::kCentered>(stats, kernel.length, kernel.eps, sum, x_at);
    find_slope<Kernel::kCentered>(stats, kernel.length, sum, x_at, h_at);
    team.each(kernel.length, [&](std::int64_t i) {
      if (kernel.of_x) {
        C value = stats.gradient(h_at(i), x_at(i));
        if (Kernel::kHasBranch && kernel.added) value += C(kernel.added[r * kernel.length + i]);
        kernel.of_x[r * kernel.length + i] = typename Kernel::X(value);
        if (Kernel::kHasBranch && kernel.of_branch) kernel.of_branch[r * kernel.length + i] = T(value);
      }
      if (!kernel.partial) return;
      const C product = C(g[i]) * stats.normal(x_at(i));
      to[i] = n ? to[i] + product : product;
      if constexpr (Kernel::kSums > 1) to[kernel.length + i] = (n ? to[kernel.length + i] : C(0)) + C(g[i]);
    });
  }
}

/// Adds the sums of all pieces: eight neighbouring columns per block, 32 threads per column.
template <class Kernel>
__global__ void norm_gradient_columns(const Kernel kernel) {
  constexpr int kColumns = 8, kBeside = kThreads / kColumns;
  __shared__ double totals[kBeside][kColumns];
  const std::int64_t columns = Kernel::kSums * kernel.length;
  const int mine = int(threadIdx.x) % kColumns, row = int(threadIdx.x) / kColumns;
  const std::int64_t c = std::int64_t(blockIdx.x) * kColumns + mine;
  double sum = 0;
  if (c < columns)
    for (std::int64_t piece = row; piece < kernel.pieces(); piece += kBeside)
      sum += double(kernel.partial[piece * columns + c]);
  totals[row][mine] = sum;
  __syncthreads();
  if (row != 0 || c >= columns) return;
  for (int other = 1; other < kBeside; ++other) sum += totals[other][mine];
  kernel.store(c, sum);
}

}  // namespace lockstep::gpu

namespace lockstep {

template <class T, bool kCentered, class X, class W, bool kOfSum>
void enqueue(const NormGradientKernel<T, kCentered, X, W, kOfSum>& kernel, const KernelContext& context) {
  using Kernel = NormGradientKernel<T, kCentered, X, W, kOfSum>;
  constexpr int kPack = gpu::kPackOf<T, X, W>;
  constexpr int kFew = 8 / kPack, kMany = 128 / int(sizeof(typename Kernel::C)) / kPack;
  const gpu::TeamShape shape = gpu::TeamShape::along(kernel.length);
  const auto aligned = [](const auto* data) { return !data || gpu::is_aligned<kPack>(data); };
  const auto grid = unsigned((kernel.pieces() + shape.rows() - 1) / shape.rows());
  const bool packs = kernel.length % kPack == 0 && aligned(kernel.g) && aligned(kernel.x) && aligned(kernel.weight) &&
                     aligned(kernel.of_x) && aligned(kernel.added) && aligned(kernel.of_branch);
  const std::int64_t of_thread = (kernel.length / kPack + shape.size - 1) / shape.size;
  const auto launch = [&](auto rows) { gpu::launch_grid(rows, grid, gpu::kThreads, context, kernel, shape); };
  if (packs && of_thread <= kFew)
    launch(gpu::norm_gradient_packs<kPack, kFew, Kernel>);
  else if (packs && of_thread <= kMany)
    launch(gpu::norm_gradient_packs<kPack, kMany, Kernel>);
  else
    launch(gpu::norm_gradient_rows<Kernel>);
  if (!kernel.partial) return;
  const std::int64_t columns = Kernel::kSums * kernel.length;
  gpu::launch_grid(gpu::norm_gradient_columns<Kernel>, unsigned((columns + 7) / 8), gpu::kThreads, context, kernel);
}

}  // namespace lockstep
