// Moves elements between memory in any layout and a dense buffer of their compute type. The compiler vectorizes loops
// over this buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/kernels/elementwise_kernel.h>

namespace lockstep::host {

struct ElementMoves {
  std::int64_t stored_bytes, computed_bytes;  ///< Per element.
  /// buffer[i] = data[i * step] for `count` elements; buffer[count .. filled) = copies of the first element.
  void (*load)(const std::byte* data, std::int64_t step, std::int64_t count, void* buffer,
               std::int64_t filled) noexcept;
  /// data[i * step] = buffer[i].
  void (*store)(const void* buffer, std::int64_t count, std::byte* data, std::int64_t step) noexcept;

  bool are_copies() const {
    return stored_bytes == computed_bytes;
  }  ///< True if elements are stored in their compute type.
};
extern const ElementMoves kElementMoves[6];
inline const ElementMoves& moves_of(Stored stored) noexcept { return kElementMoves[int(stored)]; }

/// Dense copies of neighbouring rows of several operands in their compute types. Loops over rows of 16-bit elements use
/// them.
class RowBuffers {
 public:
  struct Operand {
    Stored stored;
    std::int64_t length, step;  ///< A row's length, and the step between its elements.
    std::int64_t stride;        ///< In elements, from row to row. 0: all rows are the same row, which is buffered once.
    bool operator==(const Operand&) const = default;
  };

  /// Has room for `rows` rows of each operand.
  RowBuffers(std::span<const Operand> operands, std::int64_t rows);
  /// The number of rows to buffer at once: short rows share the cost of a call.
  static std::int64_t rows_at_once(std::int64_t length) { return std::clamp<std::int64_t>(2048 / (length + 1), 1, 64); }

  std::byte* rows(std::size_t operand) const noexcept { return buffers_[operand].data; }
  /// Loads rows into the buffer; the first begins at data + at elements. A row with stride 0 is not loaded again.
  void load(std::size_t operand, const void* data, std::int64_t at, std::int64_t rows) noexcept;
  /// Stores the buffer's rows; the first begins at data + at elements.
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
