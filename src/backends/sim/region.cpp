#include "backends/sim/region.h"

#include <algorithm>

#include "core/integers.h"

namespace lockstep::sim {
namespace {

// Row i of a and row j of b overlap if d - a.row_bytes < (i - j) * pitch < d + b.row_bytes, where d = begin(b) -
// begin(a). So this looks for such a difference i - j.
bool overlaps_at_pitch(const Region& a, const Region& b, std::size_t pitch_bytes) noexcept {
  const auto pitch = std::int64_t(pitch_bytes);
  const auto distance = std::int64_t(begin_of(b)) - std::int64_t(begin_of(a));
  const std::int64_t least = floor_div(distance - std::int64_t(a.row_bytes), pitch) + 1;
  const std::int64_t most = floor_div(distance + std::int64_t(b.row_bytes) - 1, pitch);
  return std::max(least, 1 - std::int64_t(b.rows)) <= std::min(most, std::int64_t(a.rows) - 1);
}

}  // namespace

Region normalized(const Region& region) noexcept {
  if (region.rows <= 1 || region.pitch > region.row_bytes) return region;
  return {region.data, region.span_bytes(), 1, 0};
}

bool overlaps(const Region& a, const Region& b) noexcept {
  if (begin_of(a) >= end_of(b) || begin_of(b) >= end_of(a)) return false;
  if (a.rows == 1 && b.rows == 1) return true;
  if (a.rows == 1) return overlaps_at_pitch(a, b, b.pitch);
  if (b.rows == 1 || a.pitch == b.pitch) return overlaps_at_pitch(a, b, a.pitch);

  const Region& few = a.rows < b.rows ? a : b;
  const Region& many = a.rows < b.rows ? b : a;
  if (few.rows > kExactRows) return true;
  for (std::size_t i = 0; i < few.rows; ++i) {
    const Region row = {static_cast<const std::byte*>(few.data) + i * few.pitch, few.row_bytes, 1, 0};
    if (overlaps(row, many)) return true;
  }
  return false;
}

bool covers(const Region& outer, const Region& inner) noexcept {
  if (begin_of(inner) < begin_of(outer) || end_of(inner) > end_of(outer)) return false;
  if (outer.rows == 1) return true;
  if (inner.rows != 1 && inner.pitch != outer.pitch) return false;
  const std::size_t offset = (begin_of(inner) - begin_of(outer)) % outer.pitch;
  return offset + inner.row_bytes <= outer.row_bytes;
}

}  // namespace lockstep::sim
