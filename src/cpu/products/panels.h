// Products of few rows with one matrix that is used repeatedly: the matrix is packed once, in the order in which the
// products read it. (A BLAS packs it in each call, which takes a part of the time of a product of 32 rows.) The order
// of summation depends only on k, not on the number of rows. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/products/tiles.h"

namespace lockstep::host {

using PanelSource = FactorView<float>;

/// A matrix packed into panels of columns() columns. That is the number for which four rows of sums fit the processor's
/// registers. The last panel is padded with zeros.
struct Panels {
  const float* data = nullptr;
  std::int64_t k = 0, n = 0;

  static std::int64_t columns();
  static std::int64_t count(std::int64_t n) { return (n + columns() - 1) / columns(); }
  static std::size_t bytes(std::int64_t k, std::int64_t n) {
    return std::size_t(count(n) * columns() * k) * sizeof(float);
  }
};

/// The number of rows that are computed together: divide work at multiples of kPanelRows.
inline constexpr std::int64_t kPanelRows = 4;

/// Packs the panels [begin, end) of Panels::count(n) into their places in `to`.
void pack_panels(const PanelSource& source, std::int64_t begin, std::int64_t end, float* to);

/// c [rows, n] = a [rows, k] b, plus the previous c if `adds`. Pitches are in elements.
void multiply_panels(std::int64_t rows, const float* a, std::int64_t a_pitch, const Panels& b, float* c,
                     std::int64_t c_pitch, bool adds);

}  // namespace lockstep::host
