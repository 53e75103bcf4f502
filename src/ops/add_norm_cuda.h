// A residual connection and the norm behind it on a GPU: a team of threads processes a row, and keeps its sums in
// registers.
#pragma once

#include <algorithm>

#include <lockstep/kernels/cuda/pack.h>
#include <lockstep/kernels/cuda/rows.h>

#include "ops/add_norm_kernel.h"
#include "ops/norm_gradient_cuda.h"

namespace lockstep::gpu {

/// For rows of whole packs. A thread has at most kPacks packs of a row.
template <int kPack, int kPacks, class Kernel>
__global__ void add_norm_packs(const Kernel kernel, const TeamShape shape) {
  using X = typename Kernel::X;
  using Y = typename Kernel::Y;
  const int member = int(threadIdx.x) % shape.size;
  const std::int64_t packs = kernel.length / kPack, place = int(threadIdx.x) / shape.size;
  // All threads of a block run the same iterations, because the threads of a team may synchronize by a barrier of the
  // whole block.
  for (std::int64_t first = std::int64_t(blockIdx.x) * shape.rows(); first < kernel.rows;
       first += std::int64_t(gridDim.x) * shape.rows()) {
    const std::int64_t r = first + place;
    const bool idle = r >= kernel.rows;
    const RowTeam team(shape, idle, 0, 1);
    const auto owned = [&](int p) { return !idle && member + p * shape.size < packs; };
    const auto at = [&](int p) { return (member + p * shape.size) * std::int64_t(kPack); };
    Pack<X, kPack> x[kPacks] = {};
    Pack<Y, kPack> branch[kPacks] = {};
    unrolled<kPacks>([&](int p) {
      if (!owned(p)) return;
      x[p] = load_pack<kPack>(kernel.x + r * kernel.length + at(p));
      if (kernel.branch) branch[p] = load_pack<kPack>(kernel.branch + r * kernel.length + at(p));
    });
    if (kernel.branch)
      unrolled<kPacks>([&](int p) {
        if (!owned(p)) return;
        unrolled<kPack>([&](int k) { x[p].values[k] = X(float(x[p].values[k]) + float(branch[p].values[k])); });
        store_pack(kernel.sum + r * kernel.length + at(p), x[p]);
      });
    const auto each = [&](const auto& visit) {
      unrolled<kPacks>([&](int p) {
        if (owned(p)) unrolled<kPack>([&](int k) { visit(float(x[p].values[k])); });
      });
    };
    NormRowStats<float> stats{};
    if constexpr (Kernel::kCentered) {
      float sum = 0;
      each([&](float value) { sum += value; });
      stats.mean = sum_of_team(team, sum) / float(kernel.length);
    }
    float squares = 0;
    each([&](float value) { squares += (value - stats.mean) * (value - stats.mean); });
    stats.scale = 1.f / std::sqrt(sum_of_team(team, squares) / float(kernel.length) + kernel.eps);
    // Loads the weights and biases of four packs before it uses the first: of one that is not owned, the row's last.
    constexpr int kAhead = std::min(kPacks, 4);
    unrolled<kPacks / kAhead>([&](int group) {
      Pack<float, kPack> weight[kAhead] = {}, bias[kAhead] = {};
      const auto from = [&](int w) { return std::min(at(group * kAhead + w), kernel.length - kPack); };
      if (kernel.weight) unrolled<kAhead>([&](int w) { weight[w] = load_pack<kPack>(kernel.weight + from(w)); });
      if (kernel.bias) unrolled<kAhead>([&](int w) { bias[w] = load_pack<kPack>(kernel.bias + from(w)); });
      unrolled<kAhead>([&](int w) {
        const int p = group * kAhead + w;
        if (!owned(p)) return;
        Pack<Y, kPack> out;
        unrolled<kPack>([&](int k) {
          float value = stats.normal(float(x[p].values[k]));
          if (kernel.weight) value *= weight[w].values[k];
          if (kernel.bias) value += bias[w].values[k];
          out.values[k] = Y(value);
        });
        store_pack(kernel.y + r * kernel.length + at(p), out);
      });
    });
  }
}

/// For any rows: reads the sums again from memory.
template <class Kernel>
__global__ void add_norm_rows(const Kernel kernel, const TeamShape shape) {
  using X = typename Kernel::X;
  const std::int64_t place = int(threadIdx.x) / shape.size;
  for (std::int64_t first = std::int64_t(blockIdx.x) * shape.rows(); first < kernel.rows;
       first += std::int64_t(gridDim.x) * shape.rows()) {
    const std::int64_t r = first + place;
    const bool idle = r >= kernel.rows;
    const RowTeam team(shape, idle, 0, 1);
    const X* values = kernel.x + r * kernel.length;
    if (kernel.branch) {  // each element is read again by the thread that writes it
      X* const sum = kernel.sum + r * kernel.length;
      team.each(kernel.length,
                [&](std::int64_t i) { sum[i] = X(float(values[i]) + float(kernel.branch[r * kernel.length + i])); });
      values = sum;
    }
    const auto sum_of = [&](const auto& value) { return sum_over(team, kernel.length, value); };
    NormRowStats<float> stats;
    find_scale<Kernel::kCentered>(stats, kernel.length, kernel.eps, sum_of,
                                  [&](std::int64_t i) { return float(values[i]); });
    team.each(kernel.length, [&](std::int64_t i) {
      float value = stats.normal(float(values[i]));
      if (kernel.weight) value *= kernel.weight[i];
      if (kernel.bias) value += kernel.bias[i];
      kernel.y[r * kernel.length + i] = typename Kernel::Y(value);
    });
  }
}

}  // namespace lockstep::gpu

namespace lockstep {

template <class X, class Y, bool kCentered>
void enqueue(const AddNormKernel<X, Y, kCentered>& kernel, const KernelContext& context) {
  using Kernel = AddNormKernel<X, Y, kCentered>;
  constexpr int kPack = gpu::kPackOf<float>, kFew = 8 / kPack, kMany = 32 / kPack;
  const gpu::TeamShape shape = gpu::TeamShape::along(kernel.length);
  const auto aligned = [](const auto* data) { return !data || gpu::is_aligned<kPack>(data); };
  const bool packs = kernel.length % kPack == 0 && aligned(kernel.x) && aligned(kernel.branch) &&
                     aligned(kernel.weight) && aligned(kernel.bias) && aligned(kernel.sum) && aligned(kernel.y);
  const std::int64_t of_thread = (kernel.length / kPack + shape.size - 1) / shape.size;
  const auto launch = [&](auto rows) {
    gpu::launch_grid(rows, gpu::blocks_for(kernel.rows, shape.rows()), gpu::kThreads, context, kernel, shape);
  };
  if (packs && of_thread <= kFew)
    launch(gpu::add_norm_packs<kPack, kFew, Kernel>);
  else if (packs && of_thread <= kMany)
    launch(gpu::add_norm_packs<kPack, kMany, Kernel>);
  else
    launch(gpu::add_norm_rows<Kernel>);
}

}  // namespace lockstep
