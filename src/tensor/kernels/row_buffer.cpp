#include "tensor/kernels/row_buffer.h"

#include <cstring>

#include <lockstep/core/float16_rows.h>

namespace lockstep::host {
namespace {

// Elements that are only moved, whatever their type is.
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

RowBuffers::RowBuffers(std::span<const Operand> operands) {
  std::size_t lines = 0;
  std::vector<std::size_t> first;
  for (const Operand& operand : operands) {
    first.push_back(lines);
    const std::int64_t bytes = operand.length * moves_of(operand.stored).computed_bytes;
    lines += (std::size_t(bytes) + sizeof(CacheLine) - 1) / sizeof(CacheLine);
  }
  memory_ = std::make_unique_for_overwrite<CacheLine[]>(lines);
  for (std::size_t n = 0; n < operands.size(); ++n)
    rows_.push_back({operands[n], reinterpret_cast<std::byte*>(memory_.get() + first[n]), nullptr});
}

void RowBuffers::load(std::size_t operand, const void* data, std::int64_t at) noexcept {
  Kept& row = rows_[operand];
  const ElementMoves& moves = moves_of(row.of.stored);
  const auto* const from = static_cast<const std::byte*>(data) + at * moves.stored_bytes;
  if (row.loaded == from || row.of.length == 0) return;
  row.loaded = from;
  moves.load(from, row.of.step, row.of.length, row.buffer, row.of.length);
}

void RowBuffers::store(std::size_t operand, void* data, std::int64_t at) const noexcept {
  const Kept& row = rows_[operand];
  const ElementMoves& moves = moves_of(row.of.stored);
  moves.store(row.buffer, row.of.length, static_cast<std::byte*>(data) + at * moves.stored_bytes, row.of.step);
}

}  // namespace lockstep::host
