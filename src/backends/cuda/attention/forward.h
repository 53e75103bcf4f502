// The forward kernel of attention.
#pragma once

#include "backends/cuda/attention/arguments.h"

namespace lockstep::gpu::flash {

template <class T>
struct ForwardArguments {
  Inputs<T> in;
  Matrices<T> y;
  float* logsumexp = nullptr;  ///< [N, H, L], with these strides.
  std::int64_t batch = 0, head = 0, query = 0;
};

/// A block computes kRows queries of one head, a tile of keys after the other. D: the features in shared memory, at
/// least those of the operands. kPlain: there is neither a mask nor dropout.
template <class T, int D, bool kPlain>
__global__ void __launch_bounds__(kThreads, kBlocks<D, kPlain>)
    forward(const __grid_constant__ ForwardArguments<T> arguments, int tiles) {
  constexpr int kKeys = D <= 64 ? 64 : 32, kTiles = kKeys / 8;
  static_assert(kRows <= 2 * kKeys);
  alignas(16) __shared__ T shared[2 * kKeys * kPitch<D>];
  T *const keys = shared, *const values = shared + kKeys * kPitch<D>;
  const Inputs<T>& in = arguments.in;
  const int lane = int(threadIdx.x) % 32, warp_row = int(threadIdx.x) / 32 * 16;
  // The last queries of a causal head see the most keys: they come first.
  const int first = (tiles - 1 - int(blockIdx.x) % tiles) * kRows, head = int(blockIdx.x) / tiles;
  const int n = head / in.heads, h = head % in.heads, group = h / (in.heads / in.groups);
  const Matrices<const T> key = in.key.of(n, group), value = in.value.of(n, group);
  const Mask<T> mask = in.mask.of(n, h);
  const Drops<kPlain> drops(in.dropout, head, in.queries, in.keys);
  const int row = first + warp_row + lane / 4;  // the thread's rows are this one and the eighth after it
  const std::int64_t places[2] = {drops.row(row), drops.row(row + 8)};

  load_tile<D, kRows>(shared, in.query.of(n, h), first, in.queries);
  finish_copies();
  __syncthreads();
  Fragment queries[D / 16];
  unrolled<D / 16>([&](int step) { queries[step] = load_first<D>(shared, warp_row, 16 * step); });
  __syncthreads();
  load_tile<D, kKeys>(keys, key, 0, in.keys);

  float sums[D / 8][4] = {}, greatest[2] = {kHidden, kHidden}, totals[2] = {0, 0};
  const int end = end_of_keys(in, first);
  for (int from = 0; from < end; from += kKeys) {
    // The values are copied during the first product, the next keys during the second.
    finish_copies();
    __syncthreads();
    load_tile<D, kKeys>(values, value, from, in.keys);
    float scores[kTiles][4] = {};
    add_product_with_transpose<D, T>(
        scores, [&](int step) { return queries[step]; }, keys);
    finish_copies();
    __syncthreads();
    if (from + kKeys < end) load_tile<D, kKeys>(keys, key, from + kKeys, in.keys);

    unrolled<kTiles>([&](int tile) { unrolled<4>([&](int i) { scores[tile][i] *= in.scale; }); });
    if (!kPlain && mask.data)
      unrolled<kTiles>([&](int tile) {
        unrolled<4>([&](int i) {
          scores[tile][i] += mask.at(row + i / 2 * 8, from + 8 * tile + 2 * (lane % 4) + i % 2, in.queries, in.keys);
        });
      });
    if (from + kKeys > in.keys || (in.causal && from + kKeys > first + warp_row))
      unrolled<kTiles>([&](int tile) {
        unrolled<4>([&](int i) {
          const int column = from + 8 * tile + 2 * (lane % 4) + i % 2;
          if (column >= in.keys || (in.causal && column > row + i / 2 * 8)) scores[tile][i] = kHidden;
        });
      });

    unrolled<2>([&](int half) {
      float most = greatest[half];
      unrolled<kTiles>([&](int tile) {
        most = scores[tile][2 * half] > most ? scores[tile][2 * half] : most;
        most = scores[tile][2 * half + 1] > most ? scores[tile][2 * half + 1] : most;
      });
      unrolled<2>([&](int bit) {
        const float other = __shfl_xor_sync(kAllLanes, most, 1 << bit);
        most = other > most ? other : most;
      });
      const float shift = most == kHidden ? 0 : most;  // all keys so far are hidden
      const float factor = exp2f((greatest[half] - shift) * kLog2E);
      greatest[half] = most;
      totals[half] *= factor;
      unrolled<D / 8>([&](int tile) {
        sums[tile][2 * half] *= factor;
        sums[tile][2 * half + 1] *= factor;
      });
      unrolled<kTiles>([&](int tile) {
        float weights[2];
        unrolled<2>([&](int i) {
          weights[i] = exp2f((scores[tile][2 * half + i] - shift) * kLog2E);
          totals[half] += weights[i];
        });
        bool kept[2];
        drops.keeps(places[half] + from + 8 * tile + 2 * (lane % 4), kept);
        unrolled<2>([&](int i) { scores[tile][2 * half + i] = kept[i] ? weights[i] : 0; });
      });
    });
    add_product<D, T>(sums, scores, values);
  }

  float factor[2];
  unrolled<2>([&](int half) {
    const float total = sum_of_quad(totals[half]);
    const bool blind = total == 0;  // all keys are hidden: then the result is 0, and logsumexp makes the gradient 0
    factor[half] = blind ? 0 : (kPlain ? 1 : in.dropout.scale) / total;
    const int query = row + 8 * half;
    if (lane % 4 == 0 && query < in.queries)
      arguments.logsumexp[n * arguments.batch + h * arguments.head + query * arguments.query] =
          blind ? -kHidden : greatest[half] + logf(total);
  });
  store_rows<D>(arguments.y.of(n, h), first + warp_row, in.queries, sums, factor);
}

}  // namespace lockstep::gpu::flash
