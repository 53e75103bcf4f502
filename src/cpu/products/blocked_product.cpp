#include "cpu/products/blocked_product.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include <lockstep/core/vectorized.h>

namespace lockstep::host {
namespace {

// The bytes of one row of `a` in a block of terms. A panel of b with the same number of terms fits the second-level
// cache.
constexpr std::int64_t kBlockBytes = 1536;
constexpr std::int64_t kRows = 96;   // rows of a that stay in the cache for all panels of a group
constexpr std::int64_t kPanels = 6;  // panels per group; more if a block has fewer terms
constexpr std::int64_t kMaxPanels = 24;
// b is read in place if it has at most kDirectBytes and few rows use it, or if a has only one tile of rows.
constexpr std::int64_t kDirectBytes = 512 << 10, kDirectRows = 256;
// A transposed a is read in place if one block of its terms has fewer bytes, and so mostly fits a first-level cache.
constexpr std::int64_t kDirectTransposedBytes = 64 << 10;

std::int64_t in_wholes_of(std::int64_t unit, std::int64_t count) { return (count + unit - 1) / unit * unit; }

enum class Side { a, b };

// This thread's buffer for a packed factor, kept for the next product: at most 144 KiB for a, and 432 KiB for b.
template <class T, Side>
T* room(std::int64_t count) {
  struct Free {
    void operator()(T* data) const { ::operator delete[](data, std::align_val_t(64)); }
  };
  thread_local std::unique_ptr<T[], Free> data;
  thread_local std::int64_t size = 0;
  if (size < count) {
    data.reset();
    data.reset(static_cast<T*>(::operator new[](std::size_t(count) * sizeof(T), std::align_val_t(64))));
    size = count;
  }
  return data.get();
}

template <class T>
void activate_all(Activation activation, std::int64_t rows, std::int64_t columns, T* c, std::int64_t pitch) {
  const auto each = [&](auto f) {
    vectorized([&] {
      for (std::int64_t i = 0; i < rows; ++i) {
        T* const row = c + i * pitch;
        LOCKSTEP_IVDEP
        for (std::int64_t j = 0; j < columns; ++j) row[j] = f(row[j]);
      }
    });
  };
  if (activation == Activation::relu) each([](T x) { return relu_of(x); });
  if (activation == Activation::gelu_tanh) each([](T x) { return gelu_tanh_of(x); });
}

// Several panels of b, with the terms of one block.
template <class T>
struct Group {
  const TileKernels<T>& kernels;
  const T* panels[kMaxPanels];
  std::int64_t pitches[kMaxPanels];

  // `b` points at the first term and column. Panels that can be read in place are not packed.
  void find(const Matmul& p, const T* b, std::int64_t terms, std::int64_t columns, bool packs) {
    T* packed = nullptr;
    for (std::int64_t n = 0; n * kernels.columns < columns; ++n) {
      const std::int64_t first = n * kernels.columns, count = std::min(kernels.columns, columns - first);
      const T* const from = b + first * (p.transpose_b ? p.ldb : 1);
      if (!packs && columns_read(count, kernels.lanes) == count) {
        panels[n] = from;
        pitches[n] = p.ldb;
        continue;
      }
      if (!packed) packed = room<T, Side::b>(in_wholes_of(kernels.columns, columns) * terms);
      T* const to = packed + first * terms;
      kernels.pack({from, terms, count, p.transpose_b ? 1 : p.ldb, p.transpose_b ? p.ldb : 1}, to);
      panels[n] = to;
      pitches[n] = kernels.columns;
    }
  }
};

// Packs rows of a transposed a. In memory its terms are a whole row apart, usually each on another page. In the packed
// form the terms of a tile's rows are contiguous.
template <class T>
const T* packed_rows(const T* a, std::int64_t step, std::int64_t rows, std::int64_t terms) {
  T* const packed = room<T, Side::a>(in_wholes_of(kTileRows, rows) * terms);
  for (std::int64_t l = 0; l < terms; ++l, a += step) {
    T* to = packed + l * kTileRows;
    std::int64_t row = 0;
    for (; row + kTileRows <= rows; row += kTileRows, to += kTileRows * terms)
      std::memcpy(to, a + row, kTileRows * sizeof(T));
    std::copy(a + row, a + rows, to);
  }
  return packed;
}

template <class T>
void multiply_packed(const TileKernels<T>& kernels, Tile<T> tile, const T* packed, std::int64_t rows) {
  tile.a = packed;
  tile.a_row = 1;
  tile.a_step = kTileRows;
  for (; rows > 0; rows -= kTileRows) {
    kernels.multiply(tile, std::min(kTileRows, rows));
    tile.a += kTileRows * tile.k;
    tile.c += kTileRows * tile.c_row;
    if (tile.before) tile.before += kTileRows * tile.before_row;
  }
}

// Computes a product with k == 0, in which a and b may be null.
template <class T>
void empty_product(const Matmul& p, T* c, const T* bias) {
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      T& to = c[i * p.ldc + j];
      to = p.beta != 0 ? to * T(p.beta) : bias ? bias[j] : T(0);
    }
  activate_all(p.activation, p.m, p.n, c, p.ldc);
}

}  // namespace

template <class T>
void blocked_product(const Matmul& p, const T* a, const T* b, T* c, const T* bias, const TileKernels<T>& kernels) {
  if (p.k == 0) return empty_product(p, c, bias);
  if (p.n == 1 && p.ldc == 1 && p.m > 1 && !bias) {  // computes a column as a row, to fill vectors
    Matmul row = p;
    row.m = 1;
    row.n = p.m;
    row.transpose_a = !p.transpose_b;
    row.transpose_b = !p.transpose_a;
    row.lda = p.ldb;
    row.ldb = p.lda;
    row.ldc = p.m;
    return blocked_product<T>(row, b, a, c, nullptr, kernels);
  }
  constexpr std::int64_t kMaxTerms = kBlockBytes / sizeof(T);
  const std::int64_t blocks = (p.k + kMaxTerms - 1) / kMaxTerms;
  const std::int64_t terms = (p.k + blocks - 1) / blocks;
  const bool packs_b =
      p.transpose_b || p.m >= kDirectRows || (p.m > kTileRows && p.k * p.ldb * std::int64_t(sizeof(T)) > kDirectBytes);
  const std::int64_t a_row = p.transpose_a ? 1 : p.lda, a_step = p.transpose_a ? p.lda : 1;
  const std::int64_t b_row = p.transpose_b ? 1 : p.ldb, b_step = p.transpose_b ? p.ldb : 1;
  if (p.beta != 0 && p.beta != 1)
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) c[i * p.ldc + j] *= T(p.beta);

  Group<T> group = {kernels, {}, {}};
  const std::int64_t panel = kernels.columns;
  const std::int64_t group_columns = std::min(kMaxPanels, kPanels * kMaxTerms / terms) * panel;
  const bool packs_a =
      p.transpose_a && p.n > panel && terms * p.lda * std::int64_t(sizeof(T)) >= kDirectTransposedBytes;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t first = block * terms, count = std::min(terms, p.k - first);
    for (std::int64_t column = 0; column < p.n; column += group_columns) {
      const std::int64_t columns = std::min(group_columns, p.n - column);
      group.find(p, b + first * b_row + column * b_step, count, columns, packs_b);
      for (std::int64_t row = 0; row < p.m; row += kRows) {
        const std::int64_t rows = std::min(kRows, p.m - row);
        T* const to = c + row * p.ldc + column;
        const T* const from = a + row * a_row + first * a_step;
        const T* const packed = packs_a ? packed_rows(from, a_step, rows, count) : nullptr;
        for (std::int64_t n = 0; n * panel < columns; ++n) {
          Tile<T> tile = {.k = count,
                          .a = from,
                          .a_row = a_row,
                          .a_step = a_step,
                          .b = group.panels[n],
                          .b_row = group.pitches[n],
                          .c = to + n * panel,
                          .c_row = p.ldc,
                          .columns = std::min(panel, columns - n * panel),
                          .alpha = T(p.alpha)};
          if (block > 0 || p.beta != 0) {
            tile.before = tile.c;
            tile.before_row = p.ldc;
          } else if (bias) {
            tile.before = bias + column + n * panel;
          }
          packed ? multiply_packed(kernels, tile, packed, rows) : kernels.multiply(tile, rows);
        }
        if (block == blocks - 1) activate_all(p.activation, rows, columns, to, p.ldc);
      }
    }
  }
}

template void blocked_product(const Matmul&, const float*, const float*, float*, const float*,
                              const TileKernels<float>&);
template void blocked_product(const Matmul&, const double*, const double*, double*, const double*,
                              const TileKernels<double>&);

}  // namespace lockstep::host
