// The total of many rows' losses on a GPU: blocks sum pieces of the rows, and one block sums the pieces. No atomics:
// the order of summation depends only on the number of rows.
#pragma once

#include <algorithm>

#include <lockstep/kernels/cuda/row_team.h>

#include "ops/loss_total.h"

namespace lockstep::gpu {

template <class Kernel>
__global__ void loss_pieces(const Kernel kernel, std::int64_t piece, TwoSums<double>* partial) {
  const RowTeam team({kThreads, 1}, false, 0, 1);
  const std::int64_t begin = blockIdx.x * piece, end = std::min(kernel.rows, begin + piece);
  const auto add = [](const TwoSums<double>& a, const TwoSums<double>& b) { return a + b; };
  const auto sums = team.reduce_read(
      end - begin, TwoSums<double>{}, [&](std::int64_t i) { return kernel.of_row(begin + i); }, add, add);
  if (!team.first()) return;
  if (partial)
    partial[blockIdx.x] = sums;
  else
    kernel.store(sums);
}

template <class Kernel>
__global__ void loss_total(const Kernel kernel, std::int64_t pieces, const TwoSums<double>* partial) {
  const RowTeam team({kThreads, 1}, false, 0, 1);
  const auto sums = sum_over(team, pieces, [&](std::int64_t p) { return partial[p]; });
  if (team.first()) kernel.store(sums);
}

}  // namespace lockstep::gpu

namespace lockstep {

template <class C>
void enqueue(const LossTotal<C>& kernel, const KernelContext& context) {
  constexpr std::int64_t kLeast = 1 << 11, kMostPieces = 1024;  // least rows in a piece; enough pieces to fill a GPU
  static_assert(kMostPieces * sizeof(TwoSums<double>) <= KernelContext::kWorkspaceBytes);
  const std::int64_t wanted = std::clamp<std::int64_t>(kernel.rows / kLeast, 1, kMostPieces);
  const std::int64_t piece = (kernel.rows + wanted - 1) / wanted;
  const std::int64_t pieces = piece ? (kernel.rows + piece - 1) / piece : 1;  // no piece is empty
  auto* const partial = pieces > 1 ? static_cast<TwoSums<double>*>(context.workspace) : nullptr;
  gpu::launch_grid(gpu::loss_pieces<LossTotal<C>>, unsigned(pieces), gpu::kThreads, context, kernel, piece, partial);
  if (partial) gpu::launch_grid(gpu::loss_total<LossTotal<C>>, 1, gpu::kThreads, context, kernel, pieces, partial);
}

}  // namespace lockstep
