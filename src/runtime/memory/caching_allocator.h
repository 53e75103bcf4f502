// A stream-ordered caching allocator over a backend, one per device. Safe from any thread.
//
// Two-level segregated fit (Masmano, Ripoll, Crespo, Real 2004): allocation and release in constant time, with
// splitting and immediate merging. The block headers are kept apart from the memory, which the host may not be able to
// access. Stream order makes it safe to reuse a freed block at once on its own stream. If a block was also used on
// other streams (record_stream()), its release records an event on each of them, and the block becomes free when the
// events have completed. Memory goes to another stream only through the backend, after its whole segment was free.
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

/// Whether a request may wait for work on the device. The allocator waits for memory that other streams still use, and
/// the backend waits before it takes memory back. A thread must not wait if the device's work may wait for that thread.
enum class MayWait : bool { no, yes };

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
  /// Allocates at least `bytes` for use in the order of `stream`; 0 bytes give null memory and no block. Aligned to 64
  /// bytes on the CPU and to 512 elsewhere. Throws OutOfMemory if emptying the cache did not help, or if it may not
  /// wait, where waiting might help.
  Allocation allocate(std::size_t bytes, StreamHandle stream, MayWait may_wait = MayWait::yes);
  void free(Block* block) noexcept;
  /// Declares that the block is also used on `stream`. After the block is freed, its memory is not reused before the
  /// work that was enqueued on `stream` until then has ended.
  void record_stream(Block* block, StreamHandle stream);
  /// True if record_stream() declared a use by a stream other than the block's own.
  bool is_used_elsewhere(const Block* block) const;

  /// Until end_capture(), memory comes from a pool of the capture, and freed blocks stay in that pool, because captured
  /// work uses their addresses at each replay. The pool takes whole segments from the cache of the same stream; if the
  /// device is full, the rest of the cache is freed. During the capture no event is queried.
  void begin_capture();
  CapturePool* end_capture() noexcept;
  /// Called when the captured work will not be replayed any more. Its memory returns to the cache, in the order of the
  /// streams to which the memory belongs.
  void release(CapturePool* pool) noexcept;

  MemoryStats stats() const;
  void reset_peaks();
  void empty_cache();  ///< Does nothing during a capture.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
