// Transposing copies on a GPU: a block holds one tile at a time in shared memory, so that neighbouring threads read and
// write neighbouring elements.
#pragma once

#include <lockstep/kernels/cuda/grid.h>
#include <lockstep/kernels/cuda/walk.h>

#include "kernels/transpose/transpose.h"

namespace lockstep::gpu {

inline constexpr int kTile = kWarp;  ///< Rows of a tile, and columns.

/// to[r * to_step + c] = from[r + c * from_step], for each matrix of `outer`. Each block takes one tile at a time. A
/// matrix has `of_matrix` tiles, `across` in a row.
template <class T>
__global__ void transpose_tiles(T* to, const T* from, std::int64_t rows, std::int64_t columns, std::int64_t to_step,
                                std::int64_t from_step, const Walk<2> outer, const Divisor across,
                                const Divisor of_matrix, std::int64_t tiles) {
  __shared__ T tile[kTile][kTile + 1];  // odd pitch: a column's elements are in different banks
  const int x = int(threadIdx.x) % kTile, y = int(threadIdx.x) / kTile;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t matrix = of_matrix.quotient(t), place = t - matrix * of_matrix.divisor();
    const std::int64_t down = across.quotient(place);
    const std::int64_t row = down * kTile, column = (place - down * across.divisor()) * kTile;
    const auto at = outer(matrix);
    for (int c = y; c < kTile; c += kWarps)
      if (row + x < rows && column + c < columns) tile[c][x] = from[at[1] + row + x + (column + c) * from_step];
    __syncthreads();
    for (int r = y; r < kTile; r += kWarps)
      if (row + r < rows && column + x < columns) to[at[0] + (row + r) * to_step + column + x] = tile[x][r];
    __syncthreads();  // before the next tile is read
  }
}

}  // namespace lockstep::gpu

namespace lockstep {

template <class T>
void enqueue(const TransposeKernel<T>& kernel, const KernelContext& context) {
  using namespace gpu;
  const auto tiles_of = [](std::int64_t length) { return (length + kTile - 1) / kTile; };
  const std::int64_t across = tiles_of(kernel.columns), of_matrix = across * tiles_of(kernel.rows);
  const std::int64_t tiles = kernel.outer.numel * of_matrix;
  launch_grid(transpose_tiles<T>, blocks_for(tiles, 1), kThreads, context, kernel.to, kernel.from, kernel.rows,
              kernel.columns, kernel.to_step, kernel.from_step, Walk<2>(kernel.outer), Divisor(across),
              Divisor(of_matrix), tiles);
}

}  // namespace lockstep
