#include "runtime/memory/stream_uses.h"

#include <deque>
#include <utility>

namespace lockstep {

/// The use of one block on one stream.
struct StreamUse {
  StreamUseQueue* queue = nullptr;
  Block* block = nullptr;
  EventHandle event = nullptr;
  bool recorded = false;
  std::uint64_t ticket = 0;
  StreamUse* next_of_block = nullptr;
  StreamUse* next_in_queue = nullptr;  // also links spare uses
};

/// The deferred uses on one stream, in the order of their events, so that only the first event has to be queried.
struct StreamUseQueue {
  StreamHandle stream;
  StreamUse* first = nullptr;
  StreamUse* last = nullptr;
  bool failed = false;  // the first use's event could not be recorded or queried
  StreamUse* spare = nullptr;
  std::deque<StreamUse> uses;  // all uses ever made, with their events
};

namespace {

bool is_same_stream(StreamHandle a, StreamHandle b) noexcept { return a.device == b.device && a.id == b.id; }

void remove_from_block(StreamUse& use) noexcept {
  StreamUse** link = &use.block->uses;
  while (*link != &use) link = &(*link)->next_of_block;
  *link = use.next_of_block;
}

bool record(Backend& backend, StreamUse& use) noexcept {
  if (use.recorded) return true;
  try {
    backend.record(use.event, use.queue->stream);
    use.recorded = true;
  } catch (...) {
    // The next collect() tries again: an event that is recorded later also covers the work of this use.
  }
  return use.recorded;
}

}  // namespace

StreamUses::StreamUses(Backend& backend, AllocatorHooks* hooks) : backend_(backend), hooks_(hooks) {}

StreamUses::~StreamUses() {
  for (const auto& queue : queues_) {
    for (const StreamUse& use : queue->uses) backend_.destroy_event(use.event);
  }
}

void StreamUses::add(Block& block, StreamHandle stream) {
  for (const StreamUse* use = block.uses; use != nullptr; use = use->next_of_block) {
    if (is_same_stream(use->queue->stream, stream)) return;
  }
  StreamUseQueue& queue = queue_of(stream);
  if (queue.spare == nullptr) {
    StreamUse& use = queue.uses.emplace_back();
    try {
      use.event = backend_.create_event(stream.device);
    } catch (...) {
      queue.uses.pop_back();
      throw;
    }
    queue.spare = &use;
  }
  StreamUse* use = queue.spare;
  queue.spare = use->next_in_queue;
  use->queue = &queue;
  use->block = &block;
  use->recorded = false;
  use->next_in_queue = nullptr;
  use->next_of_block = std::exchange(block.uses, use);
}

void StreamUses::defer(Block& block) noexcept {
  for (StreamUse* use = block.uses; use != nullptr; use = use->next_of_block) {
    StreamUseQueue& queue = *use->queue;
    record(backend_, *use);
    use->ticket = ++last_ticket_;
    (queue.first == nullptr ? queue.first : queue.last->next_in_queue) = use;
    queue.last = use;
    ++deferred_;
  }
}

// Returns true if the work of the use has ended. If its event cannot be recorded or queried, marks the queue as failed
// and returns false.
bool StreamUses::has_ended(StreamUse& use) noexcept {
  use.queue->failed = !record(backend_, use);
  if (use.queue->failed) return false;
  try {
    return hooks_ ? hooks_->query_use(use.event, use.block->memory, use.block->bytes) : backend_.query_event(use.event);
  } catch (...) {
    use.queue->failed = true;
    return false;
  }
}

Block* StreamUses::collect() noexcept {
  Block* ended = nullptr;
  for (const auto& queue : queues_) {
    while (queue->first != nullptr && has_ended(*queue->first)) {
      StreamUse* use = queue->first;
      queue->first = use->next_in_queue;
      use->next_in_queue = std::exchange(queue->spare, use);
      --deferred_;
      remove_from_block(*use);
      if (use->block->uses == nullptr) use->block->next_free = std::exchange(ended, use->block);
    }
  }
  return ended;
}

bool StreamUses::is_waiting(std::uint64_t ticket) const noexcept {
  for (const auto& queue : queues_) {
    if (queue->first != nullptr && queue->first->ticket <= ticket && !queue->failed) return true;
  }
  return false;
}

StreamUseQueue& StreamUses::queue_of(StreamHandle stream) {
  for (const auto& queue : queues_) {
    if (is_same_stream(queue->stream, stream)) return *queue;
  }
  queues_.push_back(std::make_unique<StreamUseQueue>());
  queues_.back()->stream = stream;
  return *queues_.back();
}

}  // namespace lockstep
