// Elements between where they are stored, in any layout, and a buffer of their compute type, where loops are vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

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

/// Neighbouring rows of each of some operands, densely and in compute types: for loops over rows of 16-bit elements.
class RowBuffers {
 public:
  struct Operand {
    Stored stored;
    std::int64_t length, step;  ///< Of a row, in elements.
    std::int64_t stride;        ///< From a row to the next one. 0: all rows are one, which a buffer has once.
    bool operator==(const Operand&) const = default;
  };

  /// With room for `rows` of each.
  RowBuffers(std::span<const Operand> operands, std::int64_t rows);
  /// How many rows are worth it: short ones share what a call costs.
  static std::int64_t rows_at_once(std::int64_t length) { return std::clamp<std::int64_t>(2048 / (length + 1), 1, 64); }

  std::byte* rows(std::size_t operand) const noexcept { return buffers_[operand].data; }
  /// Brings rows into the buffer, of which the first begins `at` elements behind `data`. One that all rows are is not
  /// brought again.
  void load(std::size_t operand, const void* data, std::int64_t at, std::int64_t rows) noexcept;
  /// Puts the buffer's elements into the rows that begin there.
  void store(std::size_t operand, void* data, std::int64_t at, std::int64_t rows) const noexcept;

 private:
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  struct Buffer {
    Operand of;
    std::byte* data;
    const std::byte* loaded;
  };
  std::vector<Buffer> buffers_;
  std::unique_ptr<CacheLine[]> memory_;
};

}  // namespace lockstep::host
