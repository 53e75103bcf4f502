// The arguments of the attention kernels, and what all of them do: tiles in shared memory, masks, dropout.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include <lockstep/core/divisor.h>

#include "backends/cuda/attention/warp_matrix.h"
#include "core/philox.h"

namespace lockstep::gpu::flash {

inline constexpr int kThreads = 128, kWarps = kThreads / 32;
inline constexpr int kRows = 16 * kWarps;  ///< Rows of a block; a warp has 16 of them.
/// Blocks that share a multiprocessor: they limit the registers.
template <int D, bool kPlain>
inline constexpr int kBlocks = D <= 64 && kPlain ? 3 : 2;
inline constexpr unsigned kAllLanes = 0xffffffff;
inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kHidden = -std::numeric_limits<float>::infinity();  ///< The score of a hidden key.

/// An operand [N, heads, rows, columns], whose last dimension is contiguous in memory. Strides are in elements.
template <class T>
struct Matrices {
  T* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;
  int columns = 0;
  bool in_packs =
      false;  ///< Rows begin at multiples of 16 bytes. For a written operand: of 4 bytes, and pairs are whole.

  __device__ Matrices of(std::int64_t n, std::int64_t h) const {
    return {data + n * batch + h * head, 0, 0, row, columns, in_packs};
  }
  __device__ T* at(std::int64_t r) const { return data + r * row; }
};

/// A mask [N, H, L, S], added to the scores.
template <class T>
struct Mask {
  const T* data = nullptr;  ///< Null: there is no mask.
  std::int64_t batch = 0, head = 0, query = 0, key = 0;

  __device__ Mask of(std::int64_t n, std::int64_t h) const {
    return {data ? data + n * batch + h * head : nullptr, 0, 0, query, key};
  }
  /// 0 for a query or a key that does not exist.
  __device__ float at(int i, int j, int queries, int keys) const {
    return i < queries && j < keys ? float(data[i * query + j * key]) : 0;
  }
};

/// As FusedDropout.
struct Dropout {
  std::uint64_t threshold = 0;
  float scale = 1;
  std::uint64_t seed = 0, stream = 0, offset = 0;
  const std::uint64_t* start = nullptr;  ///< If not null, has seed, stream and offset when the kernel runs.
  std::int64_t first = 0, stride = 0;
  Divisor run;
};

/// The inputs of all kernels.
template <class T>
struct Inputs {
  Matrices<const T> query, key, value;
  Mask<T> mask;
  int heads = 1, groups = 1, queries = 1, keys = 1;
  float scale = 1;
  bool causal = false;
  Dropout dropout;
};

/// The end of the keys that any of the queries [first, first + kRows) sees.
template <class T>
__device__ int end_of_keys(const Inputs<T>& in, int first) {
  return in.causal && first + kRows < in.keys ? first + kRows : in.keys;
}

/// Decides which weights are dropped. A thread asks for weights of rows [N, H, L] of S weights. kNone: there is no
/// dropout.
template <bool kNone>
class Drops {
 public:
  __device__ Drops(const Dropout& dropout, std::int64_t head, int queries, int keys)
      : threshold_(dropout.threshold),
        offset_(dropout.start ? dropout.start[2] : dropout.offset),
        stream_(dropout.start ? dropout.start[1] : dropout.stream),
        key_(philox_key(dropout.start ? dropout.start[0] : dropout.seed)),
        head_(head * queries),
        keys_(keys),
        dropout_(dropout) {}

  /// The place in the whole batch of the first weight of a query of this head.
  __device__ std::int64_t row(std::int64_t query) const {
    const std::int64_t at = (head_ + query) * keys_, run = dropout_.run.quotient(at);
    return dropout_.first + run * dropout_.stride + at - run * dropout_.run.divisor();
  }
  __device__ bool keeps(std::int64_t at) const {
    return threshold_ == 0 || word(block(at / 4), int(at % 4)) >= threshold_;
  }
  /// For weights `at` and at + 1.
  __device__ void keeps(std::int64_t at, bool (&kept)[2]) const {
    kept[0] = kept[1] = true;
    if (threshold_ == 0) return;
    const PhiloxBlock words = block(at / 4);
    const int place = int(at % 4);
    kept[0] = word(words, place) >= threshold_;
    kept[1] = place < 3 ? word(words, place + 1) >= threshold_ : keeps(at + 1);
  }

 private:
  __device__ PhiloxBlock block(std::int64_t i) const {
    return philox(philox_counter(stream_, offset_ + std::uint64_t(i)), key_);
  }
  // Selects by comparison: a variable index would force the words into memory.
  __device__ static std::uint32_t word(const PhiloxBlock& words, int i) {
    const std::uint32_t low = i == 0 ? words.words[0] : words.words[1], high = i == 2 ? words.words[2] : words.words[3];
    return i < 2 ? low : high;
  }

  std::uint64_t threshold_, offset_, stream_;
  PhiloxKey key_;
  std::int64_t head_;
  int keys_;
  const Dropout& dropout_;
};

template <>
class Drops<true> {
 public:
  __device__ Drops(const Dropout&, std::int64_t, int, int) {}
  __device__ std::int64_t row(std::int64_t) const { return 0; }
  __device__ bool keeps(std::int64_t) const { return true; }
  __device__ void keeps(std::int64_t, bool (&kept)[2]) const { kept[0] = kept[1] = true; }
};

/// Elements from one row of a tile in shared memory to the next: neighbouring rows lie in different banks.
template <int D>
inline constexpr int kPitch = D + 8;

/// Begins to copy rows [first, first + kTileRows) to a tile; rows from `end` on, and columns that the operand lacks,
/// become 0. The tile is there after finish_copies() and a barrier.
template <int D, int kTileRows, class T>
__device__ void load_tile(T* tile, const Matrices<const T>& from, int first, int end) {
  constexpr int kPacks = D / 8, kRowsAtOnce = kThreads / kPacks;
  if (from.in_packs && from.columns % 8 == 0) {
    const int row = int(threadIdx.x) / kPacks, column = int(threadIdx.x) % kPacks * 8;
    const T* const begin = from.at(first + row) + column;
    const int rows = column < from.columns ? end - first - row : 0;
    unrolled<kTileRows / kRowsAtOnce>([&](int step) {
      const int r = step * kRowsAtOnce;
      begin_copy(tile + (row + r) * kPitch<D> + column, begin + r * from.row, r < rows);
    });
    return;
  }
  for (int i = int(threadIdx.x); i < kTileRows * D; i += kThreads) {
    const int row = i / D, column = i % D;
    tile[row * kPitch<D> + column] = first + row < end && column < from.columns ? from.at(first + row)[column] : T(0);
  }
}

/// Four registers of each lane: a first factor [16, 16], or two second factors [16, 8].
struct Fragment {
  std::uint32_t words[4];
};

/// Rows [row, row + 16) and columns [column, column + 16) of a tile, as a first factor.
template <int D, class T>
__device__ Fragment load_first(const T* tile, int row, int column) {
  const int lane = int(threadIdx.x) % 32;
  Fragment fragment;
  load_matrices<false>(fragment.words, tile + (row + lane % 16) * kPitch<D> + column + lane / 16 * 8);
  return fragment;
}
/// The transpose of rows [row, row + 16) and columns [column, column + 16), as two second factors: words 0 and 1 for
/// the first eight rows, words 2 and 3 for the others.
template <int D, class T>
__device__ Fragment load_transposed_second(const T* tile, int row, int column) {
  const int lane = int(threadIdx.x) % 32;
  Fragment fragment;
  load_matrices<false>(fragment.words, tile + (row + lane / 16 * 8 + lane % 8) * kPitch<D> + column + lane / 8 % 2 * 8);
  return fragment;
}
/// Rows [row, row + 16) and columns [column, column + 16) as two second factors: words 0 and 1 for the first eight
/// columns, words 2 and 3 for the others.
template <int D, class T>
__device__ Fragment load_second(const T* tile, int row, int column) {
  const int lane = int(threadIdx.x) % 32;
  Fragment fragment;
  load_matrices<true>(fragment.words, tile + (row + lane % 16) * kPitch<D> + column + lane / 16 * 8);
  return fragment;
}

/// sums [16, 8 kTiles] += first [16, D] tile^T, where tile is [8 kTiles, D]. first(step) gives columns
/// [16 step, 16 step + 16) as a fragment.
template <int D, class T, int kTiles, class First>
__device__ void add_product_with_transpose(float (&sums)[kTiles][4], const First& first, const T* tile) {
  unrolled<D / 16>([&](int step) {
    const Fragment a = first(step);
    unrolled<kTiles / 2>([&](int pair) {
      const Fragment b = load_transposed_second<D>(tile, 16 * pair, 16 * step);
      multiply_add<T>(sums[2 * pair], a.words, b.words[0], b.words[1]);
      multiply_add<T>(sums[2 * pair + 1], a.words, b.words[2], b.words[3]);
    });
  });
}

/// sums [16, D] += first [16, 8 kTiles] tile, where tile is [8 kTiles, D]. `first` is rounded to T.
template <int D, class T, int kTiles>
__device__ void add_product(float (&sums)[D / 8][4], const float (&first)[kTiles][4], const T* tile) {
  unrolled<kTiles / 2>([&](int step) {
    const auto &left = first[2 * step], &right = first[2 * step + 1];
    const std::uint32_t a[4] = {packed_pair<T>(left[0], left[1]), packed_pair<T>(left[2], left[3]),
                                packed_pair<T>(right[0], right[1]), packed_pair<T>(right[2], right[3])};
    unrolled<D / 16>([&](int pair) {
      const Fragment b = load_second<D>(tile, 16 * step, 16 * pair);
      multiply_add<T>(sums[2 * pair], a, b.words[0], b.words[1]);
      multiply_add<T>(sums[2 * pair + 1], a, b.words[2], b.words[3]);
    });
  });
}

/// Stores factor sums [16, D] as rows [row, row + 16) of an operand that has `end` rows.
template <int D, class T>
__device__ void store_rows(const Matrices<T>& to, int row, int end, const float (&sums)[D / 8][4],
                           const float (&factor)[2]) {
  const int lane = int(threadIdx.x) % 32;
  unrolled<2>([&](int half) {
    const int r = row + lane / 4 + 8 * half;
    if (r >= end) return;
    T* const at = to.at(r);
    unrolled<D / 8>([&](int tile) {
      const int column = 8 * tile + 2 * (lane % 4);
      const float first = sums[tile][2 * half] * factor[half], second = sums[tile][2 * half + 1] * factor[half];
      if (column + 2 <= to.columns && to.in_packs) {
        store_pair(at + column, packed_pair<T>(first, second));
      } else {
        if (column < to.columns) at[column] = T(first);
        if (column + 1 < to.columns) at[column + 1] = T(second);
      }
    });
  });
}

/// The sum over the four lanes that share rows of a fragment.
__device__ inline float sum_of_quad(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

}  // namespace lockstep::gpu::flash
