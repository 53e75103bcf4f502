// The memory of one device: its share of a card, allocated as needed or at once. Safe from any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "backends/cuda/arena.h"
#include "backends/cuda/call.h"

namespace lockstep::gpu {

class DeviceMemory {
 public:
  /// `share` bounds the bytes handed out. With `arena_bytes`, the first request allocates that many bytes (at most the
  /// share), and all memory is cut from this allocation. Later requests do not call cudaMalloc, for which the card
  /// would have to finish its work.
  DeviceMemory(int device, std::size_t share, std::size_t arena_bytes)
      : device_(device), share_(share), arena_bytes_(std::min(arena_bytes, share)) {}

  /// Returns null if there is no room. The device's card must be current, as for all functions of this class.
  void* allocate(std::size_t bytes);
  void deallocate(void* memory, std::size_t bytes) noexcept;

 private:
  void* allocate_in_arena(std::size_t bytes);
  void* allocate_on_card(std::size_t bytes) const;

  const int device_;
  const std::size_t share_;
  const std::size_t arena_bytes_;
  RankedMutex<LockRank::cuda_memory> mutex_;
  std::size_t taken_ = 0;
  OwnedMemory arena_memory_;
  std::optional<Arena> arena_;
};

}  // namespace lockstep::gpu
