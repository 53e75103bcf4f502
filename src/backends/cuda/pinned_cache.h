// Pinned host memory for copies from and to pageable memory: buffers of a few sizes, reused after their last copy has
// ended. One per device; safe from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>

#include "backends/cuda/call.h"

namespace lockstep::gpu {

/// Waits for an event.
using Wait = std::function<void(cudaEvent_t)>;

struct PinnedBuffer {
  OwnedPinned memory;
  OwnedEvent ended;  ///< Recorded after each copy by the thread that enqueues it.
  int size_class = 0;

  std::byte* data() const noexcept { return static_cast<std::byte*>(memory.get()); }
};

class PinnedCache {
 public:
  static constexpr std::size_t kLargestBytes = std::size_t(4) << 20;

  /// `issue_mutex` is held while memory is pinned, which may wait for the card.
  PinnedCache(int device, int card, IssueMutex& issue_mutex)
      : device_(device), card_(card), issue_mutex_(issue_mutex) {}

  /// Returns an unused buffer of at least `bytes`, which is at most kLargestBytes. If the buffers in use of its size
  /// class already have kMaxBytes, waits for the oldest one.
  PinnedBuffer take(std::size_t bytes, const Wait& wait);
  /// Returns a buffer to the cache; it is free again when its event has completed.
  void give(PinnedBuffer buffer);

 private:
  static constexpr int kClasses = 6;                               // 4 KiB, 16 KiB, ... 4 MiB
  static constexpr std::size_t kMaxBytes = std::size_t(64) << 20;  // of each size class

  const int device_;
  const int card_;
  IssueMutex& issue_mutex_;
  RankedMutex<LockRank::pinned_memory> mutex_;
  std::array<std::deque<PinnedBuffer>, kClasses> given_;  // oldest first
};

}  // namespace lockstep::gpu
