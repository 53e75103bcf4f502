// Elements between where they are stored, in any layout, and a buffer of their compute type, where loops are vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include <lockstep/tensor/kernels/elementwise_kernel.h>

namespace lockstep::host {

struct ElementMoves {
  std::int64_t stored_bytes, computed_bytes;  ///< Of an element.
  /// buffer[i] = data[i * step] for `count` elements; from there to `filled`, copies of the first.
  void (*load)(const std::byte* data, std::int64_t step, std::int64_t count, void* buffer,
               std::int64_t filled) noexcept;
  /// data[i * step] = buffer[i].
  void (*store)(const void* buffer, std::int64_t count, std::byte* data, std::int64_t step) noexcept;

  bool are_copies() const {
    return stored_bytes == computed_bytes;
  }  ///< Elements are stored as they are computed with.
};
extern const ElementMoves kElementMoves[6];
inline const ElementMoves& moves_of(Stored stored) noexcept { return kElementMoves[int(stored)]; }

}  // namespace lockstep::host
