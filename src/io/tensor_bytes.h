// The size in bytes of a tensor that a file describes. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include <lockstep/core/dtype.h>
#include <lockstep/core/shape.h>

namespace lockstep {

/// Nullopt if a size is negative, or if bytes or strides exceed 64 bits, as for [0, 2^62, 2^62].
inline std::optional<std::uint64_t> tensor_bytes(const Shape& sizes, DType dtype) {
  auto room = std::int64_t(size_of(dtype));
  bool is_empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(room, std::max<std::int64_t>(size, 1), &room)) return std::nullopt;
    is_empty = is_empty || size == 0;
  }
  return is_empty ? 0 : std::uint64_t(room);
}

}  // namespace lockstep
