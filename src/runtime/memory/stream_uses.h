// Blocks that are also used on other streams than their own. Some of them were freed while work of these streams may
// still use them. When such a block is freed, an event is recorded on each of these streams; the memory may be reused
// when all events have completed. Not thread-safe: guarded by the mutex of its allocator.
//
// The host only queries events (query_event), and never waits with synchronize_event: errors of asynchronous work
// belong to their streams, and the user's next synchronization reports them. If recording or querying itself fails (on
// a lost device), the state of the work is unknown. The block then stays deferred, and the next collect() tries again.
// No error of work is lost by this, because this class enqueues no work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/backend.h"
#include "runtime/memory/allocator_hooks.h"
#include "runtime/memory/segregated_fit.h"

namespace lockstep {

struct StreamUse;
struct StreamUseQueue;

class StreamUses {
 public:
  explicit StreamUses(Backend& backend, AllocatorHooks* hooks = nullptr);
  ~StreamUses();
  StreamUses(const StreamUses&) = delete;
  StreamUses& operator=(const StreamUses&) = delete;

  /// Notes that a block in use is also used on `stream`; does nothing if this was noted before. Throws the errors of
  /// create_event, and std::bad_alloc; the block is then unchanged.
  void add(Block& block, StreamHandle stream);
  /// Defers a block that is being freed until the work enqueued so far on the streams of its uses has ended.
  void defer(Block& block) noexcept;
  /// Returns the deferred blocks whose work has ended, linked by next_free.
  Block* collect() noexcept;

  bool has_deferred() const noexcept { return deferred_ != 0; }
  /// The ticket of the last deferred use.
  std::uint64_t last_ticket() const noexcept { return last_ticket_; }
  /// Returns true if work of the uses up to `ticket` was still running at the last collect().
  bool is_waiting(std::uint64_t ticket) const noexcept;

 private:
  StreamUseQueue& queue_of(StreamHandle stream);
  bool has_ended(StreamUse& use) noexcept;

  Backend& backend_;
  AllocatorHooks* const hooks_;
  std::vector<std::unique_ptr<StreamUseQueue>> queues_;  // one per stream that blocks were recorded on
  std::size_t deferred_ = 0;                             // number of uses
  std::uint64_t last_ticket_ = 0;
};

}  // namespace lockstep
