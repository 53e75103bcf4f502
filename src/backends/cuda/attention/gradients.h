// The kernels of attention's gradient: one for the queries, then one for keys and values. Both recompute the weights,
// so that neither needs atomics.
#pragma once

#include "backends/cuda/attention/arguments.h"

namespace lockstep::gpu::flash {

template <class T>
struct GradientArguments {
  Inputs<T> in;
  Matrices<const T> g, y;
  const float* logsumexp = nullptr;  ///< [N, H, L], with these strides.
  std::int64_t batch = 0, head = 0, query = 0;
  float* means = nullptr;  ///< [N, H, L]: the weighted mean of the gradients of a query's weights. Workspace.
  Matrices<T> to_query, to_key, to_value;
};

/// A block computes kRows queries of one head. It writes their means first.
template <class T, int D, bool kPlain>
__global__ void __launch_bounds__(kThreads, kBlocks<D, kPlain>)
    query_gradient(const __grid_constant__ GradientArguments<T> arguments, int tiles) {
  constexpr int kKeys = D <= 64 ? 32 : 16, kTiles = kKeys / 8;
  static_assert(kRows <= 4 * kKeys);
  alignas(16) __shared__ T shared[4 * kKeys * kPitch<D>];  // two tiles of keys and two of values
  const Inputs<T>& in = arguments.in;
  const int lane = int(threadIdx.x) % 32, warp_row = int(threadIdx.x) / 32 * 16;
  const int first = (tiles - 1 - int(blockIdx.x) % tiles) * kRows, head = int(blockIdx.x) / tiles;
  const int n = head / in.heads, h = head % in.heads, group = h / (in.heads / in.groups);
  const Matrices<const T> key = in.key.of(n, group), value = in.value.of(n, group);
  const Mask<T> mask = in.mask.of(n, h);
  const Drops<kPlain> drops(in.dropout, head, in.queries, in.keys);
  const int row = first + warp_row + lane / 4;
  const std::int64_t places[2] = {drops.row(row), drops.row(row + 8)};

  Fragment queries[D / 16], g[D / 16];
  float means[2] = {0, 0};
  unrolled<3>([&](int which) {
    __syncthreads();
    load_tile<D, kRows>(shared,
                        (which == 0   ? in.query
                         : which == 1 ? arguments.g
                                      : arguments.y)
                            .of(n, h),
                        first, in.queries);
    finish_copies();
    __syncthreads();
    unrolled<D / 16>([&](int step) {
      const Fragment x = load_first<D>(shared, warp_row, 16 * step);
      if (which == 0) queries[step] = x;
      if (which == 1) g[step] = x;
      if (which == 2)
        unrolled<4>([&](int i) {
          means[i % 2] += low_of<T>(g[step].words[i]) * low_of<T>(x.words[i]);
          means[i % 2] += high_of<T>(g[step].words[i]) * high_of<T>(x.words[i]);
        });
    });
  });
  float logsumexp[2];
  unrolled<2>([&](int half) {
    const int query = row + 8 * half;
    means[half] = sum_of_quad(means[half]);
    logsumexp[half] = -kHidden;
    if (query >= in.queries) return;
    logsumexp[half] = arguments.logsumexp[n * arguments.batch + h * arguments.head + query * arguments.query];
    if (lane % 4 == 0) arguments.means[std::int64_t(head) * in.queries + query] = means[half];
  });

  float sums[D / 8][4] = {};
  const int end = end_of_keys(in, first);
  const auto load = [&](int from, int buffer) {
    load_tile<D, kKeys>(shared + 2 * buffer * kKeys * kPitch<D>, key, from, in.keys);
    load_tile<D, kKeys>(shared + (2 * buffer + 1) * kKeys * kPitch<D>, value, from, in.keys);
  };
  __syncthreads();
  load(0, 0);
  for (int from = 0, buffer = 0; from < end; from += kKeys, buffer = 1 - buffer) {
    finish_copies();
    __syncthreads();
    if (from + kKeys < end) load(from + kKeys, 1 - buffer);
    const T *const keys = shared + 2 * buffer * kKeys * kPitch<D>, *const values = keys + kKeys * kPitch<D>;
    float scores[kTiles][4] = {}, slopes[kTiles][4] = {};
    add_product_with_transpose<D, T>(
        scores, [&](int step) { return queries[step]; }, keys);
    add_product_with_transpose<D, T>(
        slopes, [&](int step) { return g[step]; }, values);
    unrolled<kTiles>([&](int tile) { unrolled<4>([&](int i) { scores[tile][i] *= in.scale; }); });
    if (!kPlain && mask.data)
      unrolled<kTiles>([&](int tile) {
        unrolled<4>([&](int i) {
          scores[tile][i] += mask.at(row + i / 2 * 8, from + 8 * tile + 2 * (lane % 4) + i % 2, in.queries, in.keys);
        });
      });
    unrolled<kTiles>([&](int tile) {
      unrolled<2>([&](int half) {
        const int column = from + 8 * tile + 2 * (lane % 4);
        bool kept[2];
        drops.keeps(places[half] + column, kept);
        unrolled<2>([&](int i) {
          float& slope = slopes[tile][2 * half + i];
          const bool seen = column + i < in.keys && !(in.causal && column + i > row + 8 * half);
          const float weight = seen ? exp2f((scores[tile][2 * half + i] - logsumexp[half]) * kLog2E) : 0;
          if (!kPlain) slope = kept[i] ? slope * in.dropout.scale : 0;
          slope = weight * (slope - means[half]);
        });
      });
    });
    add_product<D, T>(sums, slopes, keys);
  }
  const float factor[2] = {in.scale, in.scale};
  store_rows<D>(arguments.to_query.of(n, h), first + warp_row, in.queries, sums, factor);
}

/// A block computes kRows keys and values of one head, for all query heads that share it. Scores are transposed: a row
/// is a key.
template <class T, int D, bool kPlain>
__global__ void __launch_bounds__(kThreads, 2)
    key_gradient(const __grid_constant__ GradientArguments<T> arguments, int tiles) {
  constexpr int kQueries = D <= 64 ? 32 : 16, kTiles = kQueries / 8;
  constexpr int kBuffers = D <= 64 ? 2 : 1;  // as many as shared memory has room for
  alignas(16) __shared__ T keys[kRows * kPitch<D>];
  alignas(16) __shared__ T values[kRows * kPitch<D>];
  alignas(16) __shared__ T tiles_of_queries[kBuffers][kQueries * kPitch<D>];
  alignas(16) __shared__ T tiles_of_g[kBuffers][kQueries * kPitch<D>];
  const Inputs<T>& in = arguments.in;
  const int lane = int(threadIdx.x) % 32, warp_row = int(threadIdx.x) / 32 * 16;
  const int first = int(blockIdx.x) % tiles * kRows, group_of_all = int(blockIdx.x) / tiles;
  const int n = group_of_all / in.groups, group = group_of_all % in.groups, shared_by = in.heads / in.groups;
  const int row = first + warp_row + lane / 4;
  const int begin = in.causal ? first / kQueries * kQueries : 0;
  const auto load = [&](int h, int from, int buffer) {
    load_tile<D, kQueries>(tiles_of_queries[buffer], in.query.of(n, h), from, in.queries);
    load_tile<D, kQueries>(tiles_of_g[buffer], arguments.g.of(n, h), from, in.queries);
  };
  load_tile<D, kRows>(keys, in.key.of(n, group), first, in.keys);
  load_tile<D, kRows>(values, in.value.of(n, group), first, in.keys);
  if (kBuffers == 2) load(group * shared_by, begin, 0);

  float to_key[D / 8][4] = {}, to_value[D / 8][4] = {};
  int buffer = 0;
  for (int h = group * shared_by; h < (group + 1) * shared_by; ++h) {
    const Mask<T> mask = in.mask.of(n, h);
    const std::int64_t head = std::int64_t(n) * in.heads + h;
    const Drops<kPlain> drops(in.dropout, head, in.queries, in.keys);
    const float *const logsumexp = arguments.logsumexp + n * arguments.batch + h * arguments.head, *const means =
                                                                                                       arguments.means +
                                                                                                       head *
                                                                                                           in.queries;
    for (int from = begin; from < in.queries; from += kQueries) {
      if constexpr (kBuffers == 1) {
        __syncthreads();
        load(h, from, 0);
      }
      finish_copies();
      __syncthreads();
      const T *const queries = tiles_of_queries[buffer], *const g = tiles_of_g[buffer];
      if constexpr (kBuffers == 2) {
        buffer = 1 - buffer;
        if (from + kQueries < in.queries)
          load(h, from + kQueries, buffer);
        else if (h + 1 < (group + 1) * shared_by)
          load(h + 1, begin, buffer);
      }
      float weights[kTiles][4] = {}, slopes[kTiles][4] = {};
      add_product_with_transpose<D, T>(
          weights, [&](int step) { return load_first<D>(keys, warp_row, 16 * step); }, queries);
      add_product_with_transpose<D, T>(
          slopes, [&](int step) { return load_first<D>(values, warp_row, 16 * step); }, g);
      unrolled<kTiles>([&](int tile) { unrolled<4>([&](int i) { weights[tile][i] *= in.scale; }); });
      if (!kPlain && mask.data)
        unrolled<kTiles>([&](int tile) {
          unrolled<4>([&](int i) {
            weights[tile][i] += mask.at(from + 8 * tile + 2 * (lane % 4) + i % 2, row + i / 2 * 8, in.queries, in.keys);
          });
        });
      unrolled<kTiles>([&](int tile) {
        unrolled<2>([&](int side) {
          const int query = from + 8 * tile + 2 * (lane % 4) + side;
          const bool exists = query < in.queries;
          const float log_sum = exists ? logsumexp[query * arguments.query] : -kHidden;
          const float mean = exists ? means[query] : 0;
          const std::int64_t place = drops.row(query);
          unrolled<2>([&](int half) {
            const int key = row + 8 * half;
            float &weight = weights[tile][2 * half + side], &slope = slopes[tile][2 * half + side];
            const bool seen = exists && key < in.keys && !(in.causal && key > query);
            weight = seen ? exp2f((weight - log_sum) * kLog2E) : 0;
            const bool kept = drops.keeps(place + key);
            if (!kPlain) slope = kept ? slope * in.dropout.scale : 0;
            slope = weight * (slope - mean);
            if (!kept) weight = 0;
          });
        });
      });
      add_product<D, T>(to_value, weights, g);
      add_product<D, T>(to_key, slopes, queries);
    }
  }
  finish_copies();  // if no query sees these keys, none has waited for the first tiles
  const float key_factor[2] = {in.scale, in.scale}, value_scale = kPlain ? 1 : in.dropout.scale,
              value_factor[2] = {value_scale, value_scale};
  store_rows<D>(arguments.to_key.of(n, group), first + warp_row, in.keys, to_key, key_factor);
  store_rows<D>(arguments.to_value.of(n, group), first + warp_row, in.keys, to_value, value_factor);
}

}  // namespace lockstep::gpu::flash
