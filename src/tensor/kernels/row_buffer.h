// Elements between where they are stored, in any layout, and a buffer of their compute type, where loops are vectors.
#pragma once

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

/// A row of each of some operands, densely and in compute types: for loops over rows of 16-bit elements.
class RowBuffers {
 public:
  struct Operand {
    Stored stored;
    std::int64_t length, step;  ///< Of a row, in elements.
  };

  explicit RowBuffers(std::span<const Operand> operands);

  std::byte* row(std::size_t operand) const noexcept { return rows_[operand].buffer; }
  /// Brings the row that begins `at` elements behind `data` into the buffer. One that is there already is not brought
  /// again: what broadcasts, such as a weight.
  void load(std::size_t operand, const void* data, std::int64_t at) noexcept;
  /// Puts the buffer's elements into the row that begins there.
  void store(std::size_t operand, void* data, std::int64_t at) const noexcept;

 private:
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  struct Kept {
    Operand of;
    std::byte* buffer;
    const std::byte* loaded;
  };
  std::vector<Kept> rows_;
  std::unique_ptr<CacheLine[]> memory_;
};

}  // namespace lockstep::host
