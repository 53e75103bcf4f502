// The innermost loops of matrix products: some rows of a times one panel of columns of b, with the processor's vector
// instructions (AVX-512, AVX2, or neither, chosen at run time). An element's sum runs along k in order, so the
// element's bits depend neither on the surrounding rows and columns nor on the layouts of a and b. Pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::host {

/// The number of rows that are computed together: divide work at multiples of kTileRows.
inline constexpr std::int64_t kTileRows = 8;

/// The operands of c = alpha a b + before, where each sum has k terms.
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
  const T* before = nullptr;  ///< The matrix to add; null: no matrix. It may be c.
  std::int64_t before_row = 0;
};

/// A matrix [k, n]; element (l, j) at data[l * k_step + j * n_step]. Fastest if one step is 1.
template <class T>
struct FactorView {
  const T* data = nullptr;
  std::int64_t k = 0, n = 0;
  std::int64_t k_step = 0, n_step = 0;
};

template <class T>
struct TileKernels {
  std::int64_t columns;  ///< Columns per panel.
  std::int64_t lanes;    ///< Elements per vector.
  void (*multiply)(const Tile<T>& tile, std::int64_t rows);
  /// Writes one panel, with rows `columns` apart. If the source has fewer columns, zeros fill the rest.
  void (*pack)(const FactorView<T>& source, T* to);
};

/// Returns how many columns of b are read for `columns` columns of c: whole vectors, or half of one.
inline std::int64_t columns_read(std::int64_t columns, std::int64_t lanes) {
  return columns <= lanes / 2 ? lanes / 2 : (columns + lanes - 1) / lanes * lanes;
}

/// The kernels that this processor can run, the fastest first; float and double.
template <class T>
std::span<const TileKernels<T>> all_tile_kernels();

/// The fastest kernels.
template <class T>
const TileKernels<T>& tile_kernels() {
  return all_tile_kernels<T>().front();
}

}  // namespace lockstep::host
