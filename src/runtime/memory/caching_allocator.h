// A stream-ordered caching allocator over a backend, one per device. Safe from any thread.
//
// Two-level segregated fit (Masmano, Ripoll, Crespo, Real 2004): allocation and release in constant time, with
// splitting and immediate merging. The block headers are kept apart from the memory, which the host may not be able to
// access. The stream that a block was allocated on reuses it at once: stream order makes that safe. A block that was
// also recorded on other streams becomes free when the events recorded there at its release have completed.
#pragma once

#include <cstddef>
#include <memory>

#include <lockstep/runtime/memory.h>

#include "runtime/backend.h"
#include "runtime/memory/allocator_hooks.h"

namespace lockstep {

/// A piece of a segment; owned by its allocator.
struct Block;
/// Memory of captured work.
struct CapturePool;

class CachingAllocator {
 public:
  /// `limit` bounds the reserved bytes; 0 leaves the limit to the backend. `hooks` may be null.
  CachingAllocator(Backend& backend, int device, std::size_t limit = 0, AllocatorHooks* hooks = nullptr);
  ~CachingAllocator();  ///< Frees all segments; blocks in use become invalid.
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  struct Allocation {
    void* memory = nullptr;
    Block* block = nullptr;
  };
  /// Allocates at least `bytes` (0 gives null memory and no block), aligned to 64 bytes on the CPU and 512 elsewhere,
  /// for use in the order of `stream`. Throws OutOfMemory if emptying the cache did not help.
  Allocation allocate(std::size_t bytes, StreamHandle stream);
  void free(Block* block) noexcept;
  /// Declares that the block is also used on `stream`: its memory is not reused before the work enqueued there by the
  /// time of its release has ended.
  void record_stream(Block* block, StreamHandle stream);

  /// Until end_capture(), memory comes from a pool of the capture, and freed blocks stay in that pool: captured work
  /// uses their addresses at each replay. The pool takes whole segments from the cache of the same stream; if the
  /// device is full, the rest of the cache is freed. No event is queried.
  void begin_capture();
  CapturePool* end_capture() noexcept;
  /// Called when the captured work will not be replayed any more: its memory returns to the cache, in the order of the
  /// streams that it belongs to.
  void release(CapturePool* pool) noexcept;

  MemoryStats stats() const;
  void reset_peaks();
  void empty_cache();  ///< Does nothing during a capture.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
