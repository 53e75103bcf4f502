#include "cpu/products/panels.h"

#include <algorithm>

namespace lockstep::host {
namespace {

constexpr std::int64_t kInner = 128;  // rows of a panel that stay in the first-level cache for all rows of a

}  // namespace

std::int64_t Panels::columns() { return tile_kernels<float>().columns; }

void pack_panels(const PanelSource& source, std::int64_t begin, std::int64_t end, float* to) {
  if (source.k == 0) return;
  const TileKernels<float>& kernels = tile_kernels<float>();
  for (std::int64_t panel = begin; panel < end; ++panel) {
    const std::int64_t first = panel * kernels.columns;
    PanelSource columns = source;
    columns.data += first * source.n_step;
    columns.n = std::min(kernels.columns, source.n - first);
    kernels.pack(columns, to + first * source.k);
  }
}

void multiply_panels(std::int64_t rows, const float* a, std::int64_t a_pitch, const Panels& b, float* c,
                     std::int64_t c_pitch, bool adds) {
  const TileKernels<float>& kernels = tile_kernels<float>();
  for (std::int64_t first = 0; first < b.n; first += kernels.columns)
    for (std::int64_t from = 0; from == 0 || from < b.k; from += kInner)
      kernels.multiply({.k = std::min(kInner, b.k - from),
                        .a = a + from,
                        .a_row = b.k == 0 ? 0 : a_pitch,  // without terms, a may be null
                        .b = b.data + first * b.k + from * kernels.columns,
                        .b_row = kernels.columns,
                        .c = c + first,
                        .c_row = c_pitch,
                        .columns = std::min(kernels.columns, b.n - first),
                        .before = adds || from > 0 ? c + first : nullptr,
                        .before_row = c_pitch},
                       rows);
}

}  // namespace lockstep::host
