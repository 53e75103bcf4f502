#include "kernels/rows/row_buffer.h"

#include <cstring>

#include <lockstep/core/float16_rows.h>

namespace lockstep::host {
namespace {

// The unsigned integer type with which elements of kBytes bytes are moved, whatever their own type is.
template <std::size_t kBytes>
struct Moved;
template <>
struct Moved<1> {
  using Bits = std::uint8_t;
};
template <>
struct Moved<2> {
  using Bits [[gnu::may_alias]] = std::uint16_t;
};
template <>
struct Moved<4> {
  using Bits [[gnu::may_alias]] = std::uint32_t;
};
template <>
struct Moved<8> {
  using Bits [[gnu::may_alias]] = std::uint64_t;
};

template <std::size_t kBytes>
void gather(const std::byte* data, std::int64_t step, std::int64_t count, void* buffer, std::int64_t filled) noexcept {
  using Bits = typename Moved<kBytes>::Bits;
  const auto* const from = reinterpret_cast<const Bits*>(data);
  auto* const to = static_cast<Bits*>(buffer);
  if (step == 1)
    std::memcpy(to, from, std::size_t(count) * kBytes);
  else if (step != 0)
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * step];
  const Bits first = *from;
  for (std::int64_t i = step == 0 ? 0 : count; i < filled; ++i) to[i] = first;
}
template <std::size_t kBytes>
void scatter(const void* buffer, std::int64_t count, std::byte* data, std::int64_t step) noexcept {
  using Bits = typename Moved<kBytes>::Bits;
  const auto* const from = static_cast<const Bits*>(buffer);
  auto* const to = reinterpret_cast<Bits*>(data);
  if (step == 1)
    std::memcpy(to, from, std::size_t(count) * kBytes);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i * step] = from[i];
}
template <class T>
void widen_row(const std::byte* data, std::int64_t step, std::int64_t count, void* buffer,
               std::int64_t filled) noexcept {
  auto* const to = static_cast<float*>(buffer);
  widen(reinterpret_cast<const T*>(data), step, count, to);
  for (std::int64_t i = count; i < filled; ++i) to[i] = to[0];
}
template <class T>
void narrow_row(const void* buffer, std::int64_t count, std::byte* data, std::int64_t step) noexcept {
  narrow(static_cast<const float*>(buffer), count, reinterpret_cast<T*>(data), step);
}

}  // namespace

const ElementMoves kElementMoves[6] = {{1, 1, gather<1>, scatter<1>},
                                       {2, 2, gather<2>, scatter<2>},
                                       {4, 4, gather<4>, scatter<4>},
                                       {8, 8, gather<8>, scatter<8>},
                                       {2, 4, widen_row<Half>, narrow_row<Half>},
                                       {2, 4, widen_row<BFloat16>, narrow_row<BFloat16>}};

namespace {

// Calls move(stored, step, count, buffer) for each row, or once for all rows if they are contiguous.
template <class Byte, class Buffer, class Move>
void each_run(const RowBuffers::Operand& of, Byte* stored, Buffer* buffer, std::int64_t rows, const Move& move) {
  const ElementMoves& moves = moves_of(of.stored);
  const bool is_one_run = of.stride == of.length && (of.step == 1 || of.length == 1);
  if (of.stride == 0 || is_one_run)
    return move(stored, is_one_run ? 1 : of.step, is_one_run ? rows * of.length : of.length, buffer);
  for (std::int64_t r = 0; r < rows; ++r)
    move(stored + r * of.stride * moves.stored_bytes, of.step, of.length,
         buffer + r * of.length * moves.computed_bytes);
}

}  // namespace

RowBuffers::RowBuffers(std::span<const Operand> operands, std::int64_t rows) {
  std::size_t lines = 0;
  std::vector<std::size_t> first;
  for (const Operand& operand : operands) {
    first.push_back(lines);
    const std::int64_t elements = operand.length * (operand.stride == 0 ? 1 : rows);
    lines +=
        (std::size_t(elements * moves_of(operand.stored).computed_bytes) + sizeof(CacheLine) - 1) / sizeof(CacheLine);
  }
  memory_ = std::make_unique_for_overwrite<CacheLine[]>(lines);
  for (std::size_t n = 0; n < operands.size(); ++n)
    buffers_.push_back({operands[n], reinterpret_cast<std::byte*>(memory_.get() + first[n]), nullptr});
}

void RowBuffers::load(std::size_t operand, const void* data, std::int64_t at, std::int64_t rows) noexcept {
  Buffer& buffer = buffers_[operand];
  const ElementMoves& moves = moves_of(buffer.of.stored);
  const std::byte* const from = static_cast<const std::byte*>(data) + at * moves.stored_bytes;
  if (buffer.of.length == 0 || (buffer.of.stride == 0 && buffer.loaded == from)) return;
  buffer.loaded = from;
  each_run(buffer.of, from, buffer.data, rows,
           [&](const std::byte* stored, std::int64_t step, std::int64_t count, std::byte* to) {
             moves.load(stored, step, count, to, count);
           });
}

void RowBuffers::store(std::size_t operand, void* data, std::int64_t at, std::int64_t rows) const noexcept {
  const Buffer& buffer = buffers_[operand];
  const ElementMoves& moves = moves_of(buffer.of.stored);
  each_run(buffer.of, static_cast<std::byte*>(data) + at * moves.stored_bytes, buffer.data, rows,
           [&](std::byte* stored, std::int64_t step, std::int64_t count, const std::byte* from) {
             moves.store(from, count, stored, step);
           });
}

}  // namespace lockstep::host
