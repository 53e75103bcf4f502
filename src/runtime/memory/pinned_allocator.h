// Page-locked host memory for tensors: one cache for all devices of a backend. Safe from any thread.
//
// Block sizes are powers of two, as in PyTorch's CachingHostAllocator. After a copy from a block, an event is recorded
// on the copy's stream. A freed block is handed out again when the events of all copies from it have completed. (Unlike
// device memory, a block that the host frees cannot be reused earlier in the order of a stream. So a host that runs far
// ahead of its GPUs takes more memory; the GPUs' launch queues limit how far ahead it runs.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/ranked_mutex.h"
#include "runtime/backend.h"
#include "runtime/memory/allocator_hooks.h"

namespace lockstep {

class PinnedAllocator;

/// Page-locked memory; owned by its allocator.
struct PinnedBlock {
  /// The copies from the block on one stream.
  struct Use {
    StreamHandle stream;
    EventHandle event = nullptr;  ///< Recorded after the last copy.
    std::uint64_t recorded = 0;   ///< The number of copies,
    std::uint64_t ended = 0;      ///< and how many of them are known to have ended.
  };

  PinnedAllocator& owner;
  void* const memory;
  const std::size_t bytes;
  // Guarded by the owner's mutex:
  std::vector<Use> uses = {};
  bool is_unknown = false;  ///< A copy without an event may read it: it is never handed out again.
  PinnedBlock* next_free = nullptr;
};

class PinnedAllocator {
 public:
  explicit PinnedAllocator(Backend& backend, AllocatorHooks* hooks = nullptr) : backend_(backend), hooks_(hooks) {}
  ~PinnedAllocator();  ///< Waits for the copies and frees all memory; blocks in use become invalid.
  PinnedAllocator(const PinnedAllocator&) = delete;
  PinnedAllocator& operator=(const PinnedAllocator&) = delete;

  /// Allocates at least `bytes`. Throws OutOfMemory if freeing the cached blocks did not help.
  PinnedBlock& allocate(std::size_t bytes);
  void free(PinnedBlock& block) noexcept;

  /// Enqueues a copy from the block to a device of this backend. Throws what Backend::copy does.
  void copy(StreamHandle stream, const Copy& copy, PinnedBlock& block);
  /// Waits for the copies from the block. Throws the errors of their streams.
  void wait(PinnedBlock& block);

  const Backend& backend() const noexcept { return backend_; }
  std::size_t in_use() const;  ///< Bytes of the blocks that are handed out.

 private:
  using FreeList = PinnedBlock*;

  [[noreturn]] void throw_out_of_memory(std::size_t requested) const;
  static std::size_t class_of(std::size_t bytes) noexcept;
  std::size_t use_on(PinnedBlock& block, StreamHandle stream);
  bool is_idle(PinnedBlock& block) noexcept;
  bool copies_have_ended(PinnedBlock& block);
  PinnedBlock* take_free(FreeList& free) noexcept;
  PinnedBlock* take_new(std::size_t bytes);
  void give_back_free() noexcept;

  Backend& backend_;
  AllocatorHooks* const hooks_;
  mutable RankedMutex<LockRank::pinned_blocks> mutex_;
  // Guarded by the mutex:
  std::vector<std::unique_ptr<PinnedBlock>> blocks_;
  std::array<FreeList, 64> free_ = {};  // by the logarithm of the block size; linked by next_free
  std::size_t in_use_ = 0;
};

}  // namespace lockstep
