// Free blocks by size: two-level segregated fit (Masmano, Ripoll, Crespo, Real 2004), with the block headers kept apart
// from the memory, which the host may not be able to access. Independent of devices and streams. Not thread-safe.
//
// A block is cut from the end of a larger free block. The rest, at the front, keeps its header, and usually stays in
// its list. Therefore the header of a segment's first block lives as long as the segment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

/// The allocator's data for all blocks of one stream and size class.
struct Pool;
struct StreamUse;

/// The header of a piece of a segment.
struct Block {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  Block* previous = nullptr;  ///< Neighbours within the segment.
  Block* next = nullptr;
  Block* previous_free = nullptr;
  Block* next_free = nullptr;  ///< Also links spare headers, and deferred blocks.
  Pool* pool = nullptr;
  StreamUse* uses = nullptr;  ///< The list of uses by other streams; see stream_uses.h.
  bool free = false;

  /// Returns true if no part of the segment is in use.
  bool is_whole_free_segment() const noexcept { return free && previous == nullptr && next == nullptr; }
};

/// A supply of block headers.
class BlockHeaders {
 public:
  /// After this, the next two calls of take() do not allocate. Throws std::bad_alloc.
  void reserve() {
    if (spare_ == nullptr || spare_->next_free == nullptr) grow();
  }
  Block* take() noexcept {
    Block* block = spare_;
    spare_ = block->next_free;
    return block;
  }
  void give(Block* block) noexcept {
    block->next_free = spare_;
    spare_ = block;
  }

 private:
  void grow();

  Block* spare_ = nullptr;
  std::vector<std::unique_ptr<Block[]>> chunks_;
};

class SegregatedFit {
 public:
  /// All sizes are multiples of `granularity`, a power of two.
  SegregatedFit(BlockHeaders& headers, std::size_t granularity);

  /// Returns a block of exactly `bytes`, or null if no free block is large enough. Uses up to one reserved header.
  Block* take(std::size_t bytes) noexcept;
  /// Takes a block back, and merges it with its free neighbours.
  void give(Block* block) noexcept;
  /// Removes a free block from the lists.
  void remove(Block* block) noexcept;

 private:
  // Level 0 has a list for each number of granules below kSlots; each level above covers one power of two.
  static constexpr unsigned kSlotBits = 4;
  static constexpr unsigned kSlots = 1u << kSlotBits;
  static constexpr unsigned kLevels = 64 - kSlotBits;
  // In a list with blocks of several sizes, this many blocks are tried before a larger block is cut.
  static constexpr int kProbes = 4;

  struct Bin {
    unsigned level;
    unsigned slot;
    bool operator==(const Bin&) const = default;
  };
  Bin bin_of(std::size_t bytes) const noexcept;
  Block*& list(Bin bin) noexcept { return lists_[bin.level * kSlots + bin.slot]; }
  Block* find_above(Bin bin) noexcept;
  void insert(Block* block, Bin bin) noexcept;
  void remove(Block* block, Bin bin) noexcept;
  void resize(Block* block, std::size_t bytes) noexcept;
  std::size_t drop_next(Block* block) noexcept;

  BlockHeaders& headers_;
  const unsigned granularity_bits_;
  std::uint64_t levels_ = 0;                       // one bit for each level that has a block
  std::array<std::uint16_t, kLevels> slots_ = {};  // one bit for each list of a level that has a block
  std::array<Block*, kLevels* kSlots> lists_ = {};
};

}  // namespace lockstep
