// Geometry of Regions: whether the bytes of one meet, or contain, those of another. Pure functions.
#pragma once

#include <cstdint>

#include "runtime/backend.h"

namespace lockstep::sim {

inline std::uintptr_t begin_of(const Region& region) noexcept { return reinterpret_cast<std::uintptr_t>(region.data); }
inline std::uintptr_t end_of(const Region& region) noexcept { return begin_of(region) + region.span_bytes(); }
inline bool is_empty(const Region& region) noexcept { return region.rows == 0 || region.row_bytes == 0; }

/// The same bytes, as a single row where they are adjacent or where rows overlap each other.
Region normalized(const Region& region) noexcept;

/// Whether two normalized regions share a byte. Exact when their pitches agree, when one of them is a single row, or
/// when one has at most kExactRows rows; true for all other regions whose spans meet.
bool overlaps(const Region& a, const Region& b) noexcept;
inline constexpr std::size_t kExactRows = 1024;

/// Whether normalized `outer` has every byte of normalized `inner`. May be false where the answer needs more than
/// one division.
bool covers(const Region& outer, const Region& inner) noexcept;

}  // namespace lockstep::sim
