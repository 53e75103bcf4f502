#include "cpu/products/tiles.h"

#include <algorithm>
#include <cstring>

#include <lockstep/core/instruction_set.h>

namespace lockstep::host {
namespace {

template <class T, int kLanes>
struct VectorOf {
  using Type [[gnu::vector_size(sizeof(T) * kLanes)]] = T;
};
template <class T, int kLanes>
using Vector = typename VectorOf<T, kLanes>::Type;

// Stores sums that must be scaled, or the sums of the last columns if they do not fill a vector. Not inlined, so that
// every element is rounded by the same instructions.
template <class T>
[[gnu::noinline]] void finish(const Tile<T>& tile, int rows, const T* sums, std::int64_t sums_row, T* c,
                              const T* before) {
  for (int r = 0; r < rows; ++r, sums += sums_row, c += tile.c_row)
    for (std::int64_t j = 0; j < tile.columns; ++j)
      c[j] = (before ? before[r * tile.before_row + j] : T(0)) + tile.alpha * sums[j];
}

// Computes kRows rows and kVectors vectors of columns of c, with all sums in registers.
template <class T, int kLanes, int kVectors, int kRows>
[[gnu::always_inline]] inline void run_tile(const Tile<T>& tile, const T* a, T* c, const T* before) {
  using V = Vector<T, kLanes>;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(c + r * tile.c_row + v * kLanes, 1);
  V sums[kRows][kVectors] = {};
  const T* b = tile.b;
  for (std::int64_t l = 0; l < tile.k; ++l, a += tile.a_step, b += tile.b_row) {
    V factors[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) std::memcpy(&factors[v], b + v * kLanes, sizeof(V));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const T x = a[r * tile.a_row];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sums[r][v] += x * factors[v];
    }
  }
  if (tile.columns < kVectors * kLanes || tile.alpha != 1) {
    T room[kRows * kVectors * kLanes];
    std::memcpy(room, sums, sizeof room);
    return finish(tile, kRows, room, kVectors * kLanes, c, before);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      V sum = {};
      if (before) std::memcpy(&sum, before + r * tile.before_row + v * kLanes, sizeof(V));
      sum += sums[r][v];
      std::memcpy(c + r * tile.c_row + v * kLanes, &sum, sizeof(V));
    }
}

template <class T, int kLanes, int kVectors, int kMaxRows>
[[gnu::always_inline]] inline void run_rows(const Tile<T>& tile, std::int64_t rows) {
  const T *a = tile.a, *before = tile.before;
  T* c = tile.c;
  const auto pass = [&](std::int64_t done) {
    a += done * tile.a_row;
    c += done * tile.c_row;
    if (before) before += done * tile.before_row;
    rows -= done;
  };
  for (; rows >= kMaxRows; pass(kMaxRows)) run_tile<T, kLanes, kVectors, kMaxRows>(tile, a, c, before);
  if constexpr (kMaxRows > 4)
    if (rows >= 4) run_tile<T, kLanes, kVectors, 4>(tile, a, c, before), pass(4);
  if (rows >= 2) run_tile<T, kLanes, kVectors, 2>(tile, a, c, before), pass(2);
  if (rows == 1) run_tile<T, kLanes, kVectors, 1>(tile, a, c, before);
}

template <class T, int kLanes, int kVectors, int kMaxRows>
[[gnu::always_inline]] inline void multiply_with(const Tile<T>& tile, std::int64_t rows) {
  if (tile.columns <= kLanes / 2) return run_rows<T, kLanes / 2, 1, kMaxRows>(tile, rows);
  if (tile.columns <= kLanes) return run_rows<T, kLanes, 1, kMaxRows>(tile, rows);
  if constexpr (kVectors > 2)
    if (tile.columns <= 2 * kLanes) return run_rows<T, kLanes, 2, kMaxRows>(tile, rows);
  run_rows<T, kLanes, kVectors, kMaxRows>(tile, rows);
}

template <class V, class Half, class T>
[[gnu::always_inline]] inline void join(V& to, const T* low, const T* high) {
  Half a, b;
  std::memcpy(&a, low, sizeof a);
  std::memcpy(&b, high, sizeof b);
  if constexpr (sizeof(T) == 4)
    to = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
  else
    to = __builtin_shufflevector(a, b, 0, 1, 2, 3);
}

// to[j * to_step + i] = from[i * from_step + j], for a square of one 256-bit vector each way.
[[gnu::always_inline]] inline void transpose_square(const float* from, std::int64_t from_step, float* to,
                                                    std::int64_t to_step) {
  using V = Vector<float, 8>;
  V rows[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)  // joins halves of rows i and i + 4, so that later shuffles stay in a half
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half)
      join<V, Vector<float, 4>>(rows[i + 4 * half], from + i * from_step + 4 * half,
                                from + (i + 4) * from_step + 4 * half);
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const V *const x = rows + 4 * half, a = __builtin_shufflevector(x[0], x[1], 0, 8, 1, 9, 4, 12, 5, 13),
                   b = __builtin_shufflevector(x[0], x[1], 2, 10, 3, 11, 6, 14, 7, 15),
                   c = __builtin_shufflevector(x[2], x[3], 0, 8, 1, 9, 4, 12, 5, 13),
                   d = __builtin_shufflevector(x[2], x[3], 2, 10, 3, 11, 6, 14, 7, 15);
    const V out[4] = {__builtin_shufflevector(a, c, 0, 1, 8, 9, 4, 5, 12, 13),
                      __builtin_shufflevector(a, c, 2, 3, 10, 11, 6, 7, 14, 15),
                      __builtin_shufflevector(b, d, 0, 1, 8, 9, 4, 5, 12, 13),
                      __builtin_shufflevector(b, d, 2, 3, 10, 11, 6, 7, 14, 15)};
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) std::memcpy(to + (4 * half + j) * to_step, &out[j], sizeof(V));
  }
}
[[gnu::always_inline]] inline void transpose_square(const double* from, std::int64_t from_step, double* to,
                                                    std::int64_t to_step) {
  using V = Vector<double, 4>;
  V rows[4];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half)
      join<V, Vector<double, 2>>(rows[i + 2 * half], from + i * from_step + 2 * half,
                                 from + (i + 2) * from_step + 2 * half);
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const V *const x = rows + 2 * half, out[2] = {__builtin_shufflevector(x[0], x[1], 0, 4, 2, 6),
                                                  __builtin_shufflevector(x[0], x[1], 1, 5, 3, 7)};
    std::memcpy(to + 2 * half * to_step, &out[0], sizeof(V));
    std::memcpy(to + (2 * half + 1) * to_step, &out[1], sizeof(V));
  }
}

template <class T, int kLanes, int kVectors>
[[gnu::always_inline]] inline void pack_with(const FactorView<T>& source, T* to) {
  constexpr std::int64_t kSquare = 32 / sizeof(T), kLines = 64, kColumns = kLanes * kVectors;
  const T* const data = source.data;
  const std::int64_t k = source.k, columns = source.n, k_step = source.k_step, n_step = source.n_step;
  const std::int64_t filled = columns_read(columns, kLanes);
  const auto fill = [&](std::int64_t from_row, std::int64_t to_row, std::int64_t from_column) {
    for (std::int64_t l = from_row; l < to_row; ++l) {
      T* const row = to + l * kColumns;
      if (columns <= kLanes / 2)  // zeros the last (half) vector that is read
        std::memset(row, 0, kLanes / 2 * sizeof(T));
      else if (columns < filled)
        std::memset(row + filled - kLanes, 0, kLanes * sizeof(T));
      for (std::int64_t j = from_column; j < columns; ++j) row[j] = data[l * k_step + j * n_step];
    }
  };
  if (n_step == 1 && columns == kColumns) {
    for (std::int64_t l = 0; l < k; ++l) std::memcpy(to + l * kColumns, data + l * k_step, kColumns * sizeof(T));
    return;
  }
  if (n_step == 1 || k_step != 1) return fill(0, k, 0);
  // Packs a few lines of a few columns at a time: if the distance between columns is a power of two, columns compete
  // for the same sets of the cache.
  const std::int64_t whole_k = k / kSquare * kSquare, whole_columns = columns / kSquare * kSquare;
  if (whole_columns < filled) fill(0, whole_k, whole_columns);
  for (std::int64_t from = 0; from < whole_k; from += kLines)
    for (std::int64_t j = 0; j < whole_columns; j += kSquare)
      for (std::int64_t l = from; l < std::min(whole_k, from + kLines); l += kSquare)
        transpose_square(data + l + j * n_step, n_step, to + l * kColumns + j, kColumns);
  fill(whole_k, k, 0);
}

// For processors without AVX2. A tile has kRows rows of kVectors vectors of sums: as many as leave registers for the
// factors.
template <class T>
struct Plain {
  static constexpr int kLanes = 16 / sizeof(T);
#ifdef __aarch64__
  static constexpr int kVectors = 3, kRows = 8;
#else
  static constexpr int kVectors = 2, kRows = 4;
#endif
  static void multiply(const Tile<T>& tile, std::int64_t rows) {
    multiply_with<T, kLanes, kVectors, kRows>(tile, rows);
  }
  static void pack(const FactorView<T>& source, T* to) { pack_with<T, kLanes, kVectors>(source, to); }
};

#ifdef __x86_64__
template <class T>
struct Avx2 {
  static constexpr int kLanes = 32 / sizeof(T), kVectors = 3, kRows = 4;
  [[gnu::target("avx2,fma")]] static void multiply(const Tile<T>& tile, std::int64_t rows) {
    multiply_with<T, kLanes, kVectors, kRows>(tile, rows);
  }
  [[gnu::target("avx2,fma")]] static void pack(const FactorView<T>& source, T* to) {
    pack_with<T, kLanes, kVectors>(source, to);
  }
};

template <class T>
struct Avx512 {
  static constexpr int kLanes = 64 / sizeof(T), kVectors = 3, kRows = 8;
  [[gnu::target("avx2,fma,avx512f,avx512vl")]] static void multiply(const Tile<T>& tile, std::int64_t rows) {
    multiply_with<T, kLanes, kVectors, kRows>(tile, rows);
  }
  [[gnu::target("avx2,fma,avx512f,avx512vl")]] static void pack(const FactorView<T>& source, T* to) {
    pack_with<T, kLanes, kVectors>(source, to);
  }
};
#endif

template <class Kernels, class T>
constexpr TileKernels<T> kernels_of() {
  return {Kernels::kVectors * Kernels::kLanes, Kernels::kLanes, &Kernels::multiply, &Kernels::pack};
}

// Has no destructor, because threads may still use the kernels while another thread ends the process.
template <class T>
struct Found {
  TileKernels<T> kernels[3];
  std::size_t count = 0;

  void push_back(const TileKernels<T>& kernel) { kernels[count++] = kernel; }
};

template <class T>
Found<T> find_kernels() {
  Found<T> kernels = {};
#ifdef __x86_64__
  const InstructionSet set = instruction_set();
  if (set >= InstructionSet::avx512) kernels.push_back(kernels_of<Avx512<T>, T>());
  if (set >= InstructionSet::avx2) kernels.push_back(kernels_of<Avx2<T>, T>());
#endif
  kernels.push_back(kernels_of<Plain<T>, T>());
  return kernels;
}

}  // namespace

template <class T>
std::span<const TileKernels<T>> all_tile_kernels() {
  static const Found<T> found = find_kernels<T>();
  return {found.kernels, found.count};
}

template std::span<const TileKernels<float>> all_tile_kernels();
template std::span<const TileKernels<double>> all_tile_kernels();

}  // namespace lockstep::host
