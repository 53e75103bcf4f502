#include "runtime/host/panels.h"

#include <algorithm>
#include <cstring>

namespace lockstep::host {
namespace {

constexpr std::int64_t kVectors = 3;  // 4 rows of them, and the operands, fit the registers
constexpr std::int64_t kInner = 128;  // rows of a panel that stay in the first-level cache while others pass

using Lanes8 = float __attribute__((vector_size(32)));
using Lanes16 = float __attribute__((vector_size(64)));

// The product of some rows with one panel's rows.
struct Tile {
  std::int64_t k;
  const float* a;
  std::int64_t a_pitch;
  const float* b;
  float* c;
  std::int64_t c_pitch, columns;  // columns: of the panel's, those that there are
  bool adds;
};

template <class Lanes, int kRows>
[[gnu::always_inline]] inline void run(const Tile& tile) {
  constexpr std::int64_t kLanes = sizeof(Lanes) / sizeof(float), kColumns = kVectors * kLanes;
  Lanes sums[kRows][kVectors] = {};
  const float* b = tile.b;
  for (std::int64_t i = 0; i < tile.k; ++i, b += kColumns) {
    Lanes factors[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) std::memcpy(&factors[v], b + v * kLanes, sizeof(Lanes));
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const float x = tile.a[r * tile.a_pitch + i];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sums[r][v] += x * factors[v];
    }
  }
  if (tile.columns == kColumns) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      float* const c = tile.c + r * tile.c_pitch;
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        Lanes before = {};
        if (tile.adds) std::memcpy(&before, c + v * kLanes, sizeof before);
        before += sums[r][v];
        std::memcpy(c + v * kLanes, &before, sizeof before);
      }
    }
    return;
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    float row[kColumns];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) std::memcpy(row + v * kLanes, &sums[r][v], sizeof(Lanes));
    float* const c = tile.c + r * tile.c_pitch;
    for (std::int64_t j = 0; j < tile.columns; ++j) c[j] = tile.adds ? c[j] + row[j] : row[j];
  }
}

template <class Lanes>
[[gnu::always_inline]] inline void run_rows(const Tile& tile, std::int64_t rows) {
  switch (rows) {
    case 4: return run<Lanes, 4>(tile);
    case 3: return run<Lanes, 3>(tile);
    case 2: return run<Lanes, 2>(tile);
    default: return run<Lanes, 1>(tile);
  }
}

void run_narrow(const Tile& tile, std::int64_t rows) { run_rows<Lanes8>(tile, rows); }

#ifdef __x86_64__
[[gnu::target("avx512f")]] void run_wide(const Tile& tile, std::int64_t rows) { run_rows<Lanes16>(tile, rows); }
const bool kIsWide = __builtin_cpu_supports("avx512f");
#else
constexpr auto run_wide = run_narrow;
constexpr bool kIsWide = false;
#endif

}  // namespace

std::int64_t Panels::columns() { return kVectors * (kIsWide ? 16 : 8); }

void pack_panels(const PanelSource& source, std::int64_t begin, std::int64_t end, float* to) {
  const std::int64_t whole = Panels::columns();
  for (std::int64_t panel = begin; panel < end; ++panel) {
    const std::int64_t first = panel * whole, columns = std::min(whole, source.n - first);
    float* const rows = to + first * source.k;
    for (std::int64_t i = 0; i < source.k; ++i) {
      const float* const from = source.data + i * source.k_step + first * source.n_step;
      float* const row = rows + i * whole;
      for (std::int64_t j = 0; j < columns; ++j) row[j] = from[j * source.n_step];
      std::fill(row + columns, row + whole, 0.0f);
    }
  }
}

void multiply_panels(std::int64_t rows, const float* a, std::int64_t a_pitch, const Panels& b, float* c,
                     std::int64_t c_pitch, bool adds) {
  const std::int64_t whole = Panels::columns();
  for (std::int64_t first = 0; first < b.n; first += whole)
    for (std::int64_t from = 0; from == 0 || from < b.k; from += kInner) {
      Tile tile = {.k = std::min(kInner, b.k - from),
                   .a = a + from,
                   .a_pitch = a_pitch,
                   .b = b.data + first * b.k + from * whole,
                   .c = c + first,
                   .c_pitch = c_pitch,
                   .columns = std::min(whole, b.n - first),
                   .adds = adds || from > 0};
      for (std::int64_t row = 0; row < rows; row += kPanelRows) {
        (kIsWide ? run_wide : run_narrow)(tile, std::min(kPanelRows, rows - row));
        tile.a += kPanelRows * a_pitch;
        tile.c += kPanelRows * c_pitch;
      }
    }
}

}  // namespace lockstep::host
