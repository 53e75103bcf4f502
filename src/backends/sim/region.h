// Geometry of Regions: intersection and containment. Pure functions.
#pragma once

#include <cstdint>

#include "runtime/backend.h"

namespace lockstep::sim {

inline std::uintptr_t begin_of(const Region& region) noexcept { return reinterpret_cast<std::uintptr_t>(region.data); }
inline std::uintptr_t end_of(const Region& region) noexcept { return begin_of(region) + region.span_bytes(); }
inline bool is_empty(const Region& region) noexcept { return region.rows == 0 || region.row_bytes == 0; }

/// Returns the same bytes, as a single row if the rows are adjacent or overlap each other.
Region normalized(const Region& region) noexcept;

/// Returns true if two normalized regions share a byte. The test is exact if their pitches agree, if one of them is a
/// single row, or if one has at most kExactRows rows. For all other regions, returns true if their spans overlap.
bool overlaps(const Region& a, const Region& b) noexcept;
inline constexpr std::size_t kExactRows = 1024;

/// Returns true if normalized `outer` contains every byte of normalized `inner`. May return false if the answer needs
/// more than one division.
bool covers(const Region& outer, const Region& inner) noexcept;

}  // namespace lockstep::sim
