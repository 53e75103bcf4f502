// Transposing copies on a GPU: a block holds one tile at a time in shared memory, so that neighbouring threads read and
// write neighbouring elements.
#pragma once

#include <lockstep/kernels/cuda/grid.h>
#include <lockstep/kernels/cuda/pack.h>
#include <lockstep/kernels/cuda/walk.h>

#include "kernels/transpose/transpose.h"

namespace lockstep::gpu {

/// A tile has kTileRows rows and kTileColumns columns, of which a thread loads at least four elements and 16 bytes.
inline constexpr int kTileRows = kWarp;
template <class T>
inline constexpr int kTileColumns = kWarps* std::max(4, int(16 / sizeof(T)));

/// to[r * to_step + c] = from[r + c * from_step], for each matrix of `outer`. Each block takes one tile at a time. A
/// matrix has `of_matrix` tiles, `across` in a row.
template <class T>
__global__ void __launch_bounds__(kThreads, 6)
    transpose_tiles(T* to, const T* from, std::int64_t rows, std::int64_t columns, std::int64_t to_step,
                    std::int64_t from_step, const Walk<2> outer, const Divisor across, const Divisor of_matrix,
                    std::int64_t tiles) {
  constexpr int kColumns = kTileColumns<T>, kLoads = kColumns / kWarps;
  __shared__ T tile[kColumns][kTileRows + 1];  // odd pitch: a row's elements are in different banks
  const int x = int(threadIdx.x) % kWarp, y = int(threadIdx.x) / kWarp;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t matrix = of_matrix.quotient(t), place = t - matrix * of_matrix.divisor();
    const std::int64_t down = across.quotient(place);
    const std::int64_t row = down * kTileRows, column = (place - down * across.divisor()) * kColumns;
    const auto at = outer(matrix);
    T elements[kLoads] = {};  // all are loaded before the first is used
    unrolled<kLoads>([&](int n) {
      const int c = y + n * kWarps;
      if (row + x < rows && column + c < columns) elements[n] = from[at[1] + row + x + (column + c) * from_step];
    });
    unrolled<kLoads>([&](int n) { tile[y + n * kWarps][x] = elements[n]; });
    __syncthreads();
    for (int r = y; r < kTileRows; r += kWarps)
      for (int c = x; c < kColumns; c += kWarp)
        if (row + r < rows && column + c < columns) to[at[0] + (row + r) * to_step + column + c] = tile[c][r];
    __syncthreads();  // before the next tile is read
  }
}

}  // namespace lockstep::gpu

namespace lockstep {

template <class T>
void enqueue(const TransposeKernel<T>& kernel, const KernelContext& context) {
  using namespace gpu;
  const auto tiles_of = [](std::int64_t length, int tile) { return (length + tile - 1) / tile; };
  const std::int64_t across = tiles_of(kernel.columns, kTileColumns<T>);
  const std::int64_t of_matrix = across * tiles_of(kernel.rows, kTileRows);
  const std::int64_t tiles = kernel.outer.numel * of_matrix;
  launch_grid(transpose_tiles<T>, blocks_for(tiles, 1), kThreads, context, kernel.to, kernel.from, kernel.rows,
              kernel.columns, kernel.to_step, kernel.from_step, Walk<2>(kernel.outer), Divisor(across),
              Divisor(of_matrix), tiles);
}

}  // namespace lockstep
