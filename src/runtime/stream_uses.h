// Blocks used on streams other than their own, and those of them that were freed while that work may still run: an
// event for each such stream, recorded when the block is freed, tells when the memory may be used again.
// Not thread-safe: guarded by the mutex of the allocator it belongs to.
//
// The host only ever asks events (query_event), it never waits with synchronize_event: the errors of asynchronous work
// belong to their streams, and are left for the user's next synchronization. Where recording or asking itself fails
// (a lost device), nothing is known of the work, so the block is kept back and the call made again at the next
// collect(); no error is lost, as none of the stream's work went through here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/allocator_hooks.h"
#include "runtime/backend.h"
#include "runtime/segregated_fit.h"

namespace lockstep {

struct StreamUse;
struct StreamUseQueue;

class StreamUses {
 public:
  explicit StreamUses(Backend& backend, AllocatorHooks* hooks = nullptr);
  ~StreamUses();
  StreamUses(const StreamUses&) = delete;
  StreamUses& operator=(const StreamUses&) = delete;

  /// Notes that a block in use is also used on `stream`; once for each stream. Throws what create_event throws,
  /// and std::bad_alloc; the block is then as before.
  void add(Block& block, StreamHandle stream);
  /// Keeps a block with uses, which is being freed, until the work enqueued on their streams by now has ended.
  void defer(Block& block) noexcept;
  /// The deferred blocks whose work has ended, linked by next_free.
  Block* collect() noexcept;

  bool has_deferred() const noexcept { return deferred_ != 0; }
  /// Names the last use deferred so far.
  std::uint64_t last_ticket() const noexcept { return last_ticket_; }
  /// True if work of the uses up to `ticket` was still running at the last collect().
  bool is_waiting(std::uint64_t ticket) const noexcept;

 private:
  StreamUseQueue& queue_of(StreamHandle stream);
  bool has_ended(StreamUse& use) noexcept;

  Backend& backend_;
  AllocatorHooks* const hooks_;
  std::vector<std::unique_ptr<StreamUseQueue>> queues_;  // one for each stream that blocks were recorded on
  std::size_t deferred_ = 0;                             // uses
  std::uint64_t last_ticket_ = 0;
};

}  // namespace lockstep
