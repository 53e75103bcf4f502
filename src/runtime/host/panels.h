// Products of some rows with one matrix that is used again and again: the matrix is packed once, in the order in which
// the products read it. (A library packs it in each call. With 32 rows that costs as much as a part of the product.)
// What is added to what, and in which order, depends on k alone: not on how many rows there are. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/host/tiles.h"

namespace lockstep::host {

using PanelSource = FactorView<float>;

/// A packed one: panels of some columns, as many as the processor's registers hold of four rows; the last is filled up
/// with zeros.
struct Panels {
  const float* data = nullptr;
  std::int64_t k = 0, n = 0;

  static std::int64_t columns();
  static std::int64_t count(std::int64_t n) { return (n + columns() - 1) / columns(); }
  static std::size_t bytes(std::int64_t k, std::int64_t n) {
    return std::size_t(count(n) * columns() * k) * sizeof(float);
  }
};

/// Rows that are computed together: work is best divided at multiples.
inline constexpr std::int64_t kPanelRows = 4;

/// Packs the panels from `begin` to `end`, of Panels::count(n), into their places in `to`.
void pack_panels(const PanelSource& source, std::int64_t begin, std::int64_t end, float* to);

/// c [rows, n] = a [rows, k] b, plus what c holds where `adds`. Pitches in elements.
void multiply_panels(std::int64_t rows, const float* a, std::int64_t a_pitch, const Panels& b, float* c,
                     std::int64_t c_pitch, bool adds);

}  // namespace lockstep::host
