// Copies between layouts whose dense dimensions differ, such as a transposed matrix: tile by tile, so that each cache
// line is read once and written once.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/launch.h"

namespace lockstep {

/// to[r * to_step + c] = from[r + c * from_step], for each matrix of `outer`.
template <class T>
struct TransposeKernel {
  static constexpr std::int64_t kRows = 64, kColumns = 32;  // the size of a tile, which fits the L1 cache
  static constexpr std::int64_t kGrain = 1 << 15;           // up to this many elements are not divided between tasks

  T* to;
  const T* from;
  std::int64_t rows, columns, to_step, from_step;
  Geometry<2> outer;

  void operator()(const KernelContext& context) const {
    const std::int64_t down = (rows + kRows - 1) / kRows, across = (columns + kColumns - 1) / kColumns;
    const std::int64_t elements = std::min(rows, kRows) * std::min(columns, kColumns);
    host::vectorized_for(
        context, outer.numel * down * across, kGrain / elements + 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            tile(offsets_at(outer, i / (down * across)), i / across % down * kRows, i % across * kColumns);
        });
  }

 private:
  LOCKSTEP_INLINE void tile(const std::array<std::int64_t, 2>& at, std::int64_t r, std::int64_t c) const {
    T* const target = to + at[0] + r * to_step + c;
    const T* const source = from + at[1] + r + c * from_step;
    const std::int64_t height = std::min(kRows, rows - r), width = std::min(kColumns, columns - c);
    if (height == kRows && width == kColumns)  // constant bounds give loops without remainders
      copy_tile(target, source, kRows, kColumns);
    else
      copy_tile(target, source, height, width);
  }

  [[gnu::always_inline]] inline void copy_tile(T* target, const T* source, std::int64_t height,
                                               std::int64_t width) const {
    T buffer[kRows][kColumns];
    for (std::int64_t c = 0; c < width; ++c)
      for (std::int64_t r = 0; r < height; ++r) buffer[r][c] = source[c * from_step + r];
    for (std::int64_t r = 0; r < height; ++r) std::copy_n(buffer[r], width, target + r * to_step);
  }
};

/// The copy as a TransposeKernel; nullopt if it is not a transpose.
template <class T>
std::optional<TransposeKernel<T>> as_transpose(const TensorImpl& to, const TensorImpl& from) {
  constexpr std::int64_t kWorthTiles = 8;
  Geometry<2> g = make_geometry(to.sizes, to, from);
  const int last = g.sizes.rank() - 1;
  if (last < 1 || g.strides[0][last] != 1 || g.strides[1][last] < 1 || g.sizes[last] < kWorthTiles) return {};
  for (int d = 0; d < last; ++d)
    if (g.strides[1][d] == 1 && g.sizes[d] >= kWorthTiles) {
      TransposeKernel<T> kernel{reinterpret_cast<T*>(to.data()),
                                reinterpret_cast<const T*>(from.data()),
                                g.sizes[d],
                                g.sizes[last],
                                g.strides[0][d],
                                g.strides[1][last],
                                {}};
      for (const int dim : {last, d}) {
        g.sizes.erase(dim);
        for (Shape& strides : g.strides) strides.erase(dim);
      }
      g.numel = g.sizes.elements();
      kernel.outer = g;
      return kernel;
    }
  return {};
}

}  // namespace lockstep

#ifdef LOCKSTEP_DEVICE_FORMS
#include "kernels/transpose/transpose_cuda.h"
#endif
