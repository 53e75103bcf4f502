#include "runtime/memory/segregated_fit.h"

#include <bit>

namespace lockstep {

namespace {

constexpr std::size_t kHeadersPerChunk = 256;

// Returns the first block of at least `bytes` among the next `limit` blocks of a list (all blocks if limit is
// negative), or null.
Block* first_fit(Block* block, std::size_t bytes, int limit) noexcept {
  for (; block != nullptr && limit != 0; block = block->next_free, --limit) {
    if (block->bytes >= bytes) return block;
  }
  return nullptr;
}

}  // namespace

void BlockHeaders::grow() {
  auto chunk = std::make_unique<Block[]>(kHeadersPerChunk);
  chunks_.push_back(std::move(chunk));
  for (std::size_t i = 0; i < kHeadersPerChunk; ++i) give(&chunks_.back()[i]);
}

SegregatedFit::SegregatedFit(BlockHeaders& headers, std::size_t granularity)
    : headers_(headers), granularity_bits_(unsigned(std::countr_zero(granularity))) {}

SegregatedFit::Bin SegregatedFit::bin_of(std::size_t bytes) const noexcept {
  const std::size_t granules = bytes >> granularity_bits_;
  if (granules < kSlots) return {0, unsigned(granules)};
  const unsigned exponent = unsigned(std::bit_width(granules)) - 1;
  return {exponent - kSlotBits + 1, unsigned(granules >> (exponent - kSlotBits)) - kSlots};
}

Block* SegregatedFit::take(std::size_t bytes) noexcept {
  const Bin bin = bin_of(bytes);
  Block* block = first_fit(list(bin), bytes, kProbes);
  if (block == nullptr) block = find_above(bin);
  if (block == nullptr) block = first_fit(list(bin), bytes, -1);
  if (block == nullptr) return nullptr;

  if (block->bytes == bytes) {
    remove(block, bin);
    block->free = false;
    return block;
  }
  Block* taken = headers_.take();
  taken->memory = block->memory + (block->bytes - bytes);
  taken->bytes = bytes;
  taken->pool = block->pool;
  taken->uses = nullptr;
  taken->free = false;
  taken->previous = block;
  taken->next = block->next;
  if (taken->next != nullptr) taken->next->previous = taken;
  block->next = taken;
  resize(block, block->bytes - bytes);
  return taken;
}

void SegregatedFit::give(Block* block) noexcept {
  if (block->next != nullptr && block->next->free) {
    remove(block->next);
    block->bytes += drop_next(block);
  }
  Block* previous = block->previous;
  if (previous != nullptr && previous->free) {
    resize(previous, previous->bytes + drop_next(previous));
    return;
  }
  block->free = true;
  insert(block, bin_of(block->bytes));
}

void SegregatedFit::remove(Block* block) noexcept { remove(block, bin_of(block->bytes)); }

// Returns a block from the shortest list whose blocks are all larger than those of `bin`.
Block* SegregatedFit::find_above(Bin bin) noexcept {
  const unsigned slots = slots_[bin.level] & (~0u << bin.slot << 1);
  if (slots != 0) return list({bin.level, unsigned(std::countr_zero(slots))});
  const std::uint64_t levels = levels_ & (~std::uint64_t(0) << bin.level << 1);
  if (levels == 0) return nullptr;
  const unsigned level = unsigned(std::countr_zero(levels));
  return list({level, unsigned(std::countr_zero(slots_[level]))});
}

void SegregatedFit::insert(Block* block, Bin bin) noexcept {
  Block*& head = list(bin);
  block->previous_free = nullptr;
  block->next_free = head;
  if (head != nullptr) head->previous_free = block;
  head = block;
  slots_[bin.level] = std::uint16_t(slots_[bin.level] | 1u << bin.slot);
  levels_ |= std::uint64_t(1) << bin.level;
}

void SegregatedFit::remove(Block* block, Bin bin) noexcept {
  if (block->next_free != nullptr) block->next_free->previous_free = block->previous_free;
  if (block->previous_free != nullptr) {
    block->previous_free->next_free = block->next_free;
    return;
  }
  list(bin) = block->next_free;
  if (block->next_free != nullptr) return;
  slots_[bin.level] = std::uint16_t(slots_[bin.level] & ~(1u << bin.slot));
  if (slots_[bin.level] == 0) levels_ &= ~(std::uint64_t(1) << bin.level);
}

// Resizes a free block, and moves it to another list only if needed.
void SegregatedFit::resize(Block* block, std::size_t bytes) noexcept {
  const Bin before = bin_of(block->bytes);
  const Bin after = bin_of(bytes);
  block->bytes = bytes;
  if (before == after) return;
  remove(block, before);
  insert(block, after);
}

// Removes the next block, which must be in no list, and returns its bytes.
std::size_t SegregatedFit::drop_next(Block* block) noexcept {
  Block* dropped = block->next;
  block->next = dropped->next;
  if (block->next != nullptr) block->next->previous = block;
  headers_.give(dropped);
  return dropped->bytes;
}

}  // namespace lockstep
