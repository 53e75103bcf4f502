// The bytes of a tensor in a file: their number, and a check of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <lockstep/core/dtype.h>
#include <lockstep/core/shape.h>

#include "io/byte_source.h"

namespace lockstep {

/// The number of bytes of a tensor. Nullopt if a size is negative, or if bytes or strides exceed 64 bits, as for [0,
/// 2^62, 2^62].
inline std::optional<std::uint64_t> tensor_bytes(const Shape& sizes, DType dtype) {
  auto room = std::int64_t(size_of(dtype));
  bool is_empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(room, std::max<std::int64_t>(size, 1), &room)) return std::nullopt;
    is_empty = is_empty || size == 0;
  }
  return is_empty ? 0 : std::uint64_t(room);
}

/// Throws FormatError for bytes other than 0 and 1, which are not valid values of a C++ bool. `type`: the format's name
/// of the dtype.
inline void check_bools(const ByteSource& source, std::uint64_t offset, const std::byte* data, std::uint64_t bytes,
                        const char* type) {
  const std::byte* const bad = std::find_if(data, data + bytes, [](std::byte value) { return value > std::byte(1); });
  if (bad != data + bytes)
    source.fail(offset + std::uint64_t(bad - data), "expected 0 or 1 for a ", type, ", got ", int(*bad));
}

}  // namespace lockstep
