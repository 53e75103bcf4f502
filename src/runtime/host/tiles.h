// The innermost loops of matrix products: some rows of a times one panel of columns of b, with the vectors that the
// processor has (AVX-512, AVX2, or neither, found when the program runs). An element's sum goes along k in order, so
// its bits depend neither on the rows and columns around it nor on how a and b lie. Pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::host {

/// Rows that are computed together: work is best divided at multiples.
inline constexpr std::int64_t kTileRows = 8;

/// c = alpha a b + before, for k terms.
template <class T>
struct Tile {
  std::int64_t k = 0;
  const T* a = nullptr;  ///< Element (i, l) at a[i * a_row + l * a_step].
  std::int64_t a_row = 0, a_step = 1;
  const T* b = nullptr;  ///< Element (l, j) at b[l * b_row + j]. Read in whole vectors: see columns_read.
  std::int64_t b_row = 0;
  T* c = nullptr;
  std::int64_t c_row = 0;
  std::int64_t columns = 0;  ///< At most TileKernels::columns.
  T alpha = 1;
  const T* before = nullptr;  ///< Null for none; may be c.
  std::int64_t before_row = 0;
};

/// A matrix [k, n]; element (l, j) at data[l * k_step + j * n_step]. Fastest where one step is 1.
template <class T>
struct FactorView {
  const T* data = nullptr;
  std::int64_t k = 0, n = 0;
  std::int64_t k_step = 0, n_step = 0;
};

template <class T>
struct TileKernels {
  std::int64_t columns;  ///< Of a panel.
  std::int64_t lanes;    ///< Of a vector.
  void (*multiply)(const Tile<T>& tile, std::int64_t rows);
  /// Writes one panel, rows `columns` apart. The source may have fewer columns: zeros fill up what is read.
  void (*pack)(const FactorView<T>& source, T* to);
};

/// How many columns of b are read for so many columns of c: whole vectors, or half of one.
inline std::int64_t columns_read(std::int64_t columns, std::int64_t lanes) {
  return columns <= lanes / 2 ? lanes / 2 : (columns + lanes - 1) / lanes * lanes;
}

/// Those that this processor can run, the fastest first; float and double.
template <class T>
std::span<const TileKernels<T>> all_tile_kernels();

/// The fastest.
template <class T>
const TileKernels<T>& tile_kernels() {
  return all_tile_kernels<T>().front();
}

}  // namespace lockstep::host
