// A stream-ordered caching allocator over a backend: one for each device. Safe from any thread.
//
// Two-level segregated fit (Masmano, Ripoll, Crespo, Real 2004) with the block headers kept beside the memory,
// which the host may not be able to touch: constant time to allocate and to free, splitting, immediate merging.
// A block is reused at once by the stream that it was allocated on: that stream's order makes it safe. A block
// that other streams were recorded on becomes free when the events recorded there at its release have passed.
#pragma once

#include <cstddef>
#include <memory>

#include <lockstep/runtime/memory.h>

#include "runtime/allocator_hooks.h"
#include "runtime/backend.h"

namespace lockstep {

/// A piece of a segment; owned by its allocator.
struct Block;
/// Memory that belongs to captured work.
struct CapturePool;

class CachingAllocator {
 public:
  /// `limit` bounds the reserved bytes; 0 leaves it to the backend. Hooks are called where there are any.
  CachingAllocator(Backend& backend, int device, std::size_t limit = 0, AllocatorHooks* hooks = nullptr);
  ~CachingAllocator();  ///< Gives everything back; blocks in use become invalid.
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  struct Allocation {
    void* memory = nullptr;
    Block* block = nullptr;
  };
  /// At least `bytes` (0 gives null memory and no block), aligned to 64 bytes on the CPU and 512 elsewhere, for use
  /// in the order of `stream`. Throws OutOfMemory after the cache was emptied in vain.
  Allocation allocate(std::size_t bytes, StreamHandle stream);
  void free(Block* block) noexcept;
  /// The block is used on `stream` too: its memory is not reused before the work enqueued there by the time it is
  /// freed has ended.
  void record_stream(Block* block, StreamHandle stream);

  /// From here to the end of the capture memory comes from a pool of the capture's own, and nothing that is freed
  /// leaves it: captured work uses these addresses whenever it is done again. The pool takes whole segments from the
  /// cache of their stream; where the device is full, the others of the cache go back to it. No event is asked.
  void begin_capture();
  CapturePool* end_capture() noexcept;
  /// The captured work is done no more: its memory is the cache's again, in the order of the streams that it belongs
  /// to.
  void release(CapturePool* pool) noexcept;

  MemoryStats stats() const;
  void reset_peaks();
  void empty_cache();  ///< Does nothing during a capture.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
