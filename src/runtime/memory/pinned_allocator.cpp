#include "runtime/memory/pinned_allocator.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include <lockstep/core/error.h>

namespace lockstep {
namespace {

constexpr std::size_t kSmallestBytes = 4096;  // a page
constexpr std::size_t kLargestBytes = std::numeric_limits<std::size_t>::max() / 2 + 1;
constexpr std::chrono::microseconds kPinnedPollInterval(20);

}  // namespace

// Does not free blocks that a lost device may still read.
PinnedAllocator::~PinnedAllocator() {
  for (const std::unique_ptr<PinnedBlock>& block : blocks_) {
    bool ended = false;
    try {
      while (!block->is_unknown && !(ended = copies_have_ended(*block))) {
        std::this_thread::sleep_for(kPinnedPollInterval);
        backend_.poll_failures();
      }
    } catch (...) {  // the next synchronization reports it
    }
    for (const PinnedBlock::Use& use : block->uses) backend_.destroy_event(use.event);
    if (ended) backend_.deallocate_pinned(block->memory, block->bytes);
  }
}

std::size_t PinnedAllocator::class_of(std::size_t bytes) noexcept {
  return std::size_t(std::bit_width(std::max(bytes, kSmallestBytes) - 1));
}

PinnedBlock& PinnedAllocator::allocate(std::size_t bytes) {
  if (bytes > kLargestBytes) throw_out_of_memory(bytes);
  const std::size_t size_class = class_of(bytes);
  PinnedBlock* block = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    block = take_free(free_[size_class]);
  }
  if (!block) block = take_new(std::size_t(1) << size_class);
  if (!block) {
    give_back_free();
    block = take_new(std::size_t(1) << size_class);
  }
  if (!block) throw_out_of_memory(bytes);
  {
    const std::scoped_lock lock(mutex_);
    in_use_ += block->bytes;
  }
  try {
    if (hooks_) hooks_->host_writes(block->memory, block->bytes);
  } catch (...) {
    free(*block);
    throw;
  }
  return *block;
}

void PinnedAllocator::throw_out_of_memory(std::size_t requested) const {
  std::size_t all = 0, used = 0;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& block : blocks_) all += block->bytes;
    used = in_use_;
  }
  OutOfMemory error(Device().name(), {.requested = requested, .in_use = used, .cached = all - used, .limit = all});
  error.add_context("page-locked memory: pin less, or raise the system's limit of locked memory (ulimit -l)");
  throw error;
}

void PinnedAllocator::free(PinnedBlock& block) noexcept {
  const std::scoped_lock lock(mutex_);
  in_use_ -= block.bytes;
  block.next_free = std::exchange(free_[class_of(block.bytes)], &block);
}

void PinnedAllocator::copy(StreamHandle stream, const Copy& copy, PinnedBlock& block) {
  std::size_t use = 0;
  {
    const std::scoped_lock lock(mutex_);
    use = use_on(block, stream);
  }
  try {
    backend_.copy(stream, copy);
    const std::scoped_lock lock(mutex_);
    backend_.record(block.uses[use].event, stream);
    ++block.uses[use].recorded;
  } catch (const BackendError&) {  // no event marks the end of rows that may be on their way already
    const std::scoped_lock lock(mutex_);
    block.is_unknown = true;
    throw;
  }
}

void PinnedAllocator::wait(PinnedBlock& block) {
  std::vector<PinnedBlock::Use> pending;
  {
    const std::scoped_lock lock(mutex_);
    for (const PinnedBlock::Use& use : block.uses)
      if (use.recorded != use.ended) pending.push_back(use);
  }
  for (const PinnedBlock::Use& use : pending) backend_.synchronize_event(use.event);
  if (hooks_) hooks_->host_writes(block.memory, block.bytes);
  const std::scoped_lock lock(mutex_);
  for (const PinnedBlock::Use& waited : pending)
    for (PinnedBlock::Use& use : block.uses)
      if (use.event == waited.event) use.ended = std::max(use.ended, waited.recorded);
}

std::size_t PinnedAllocator::in_use() const {
  const std::scoped_lock lock(mutex_);
  return in_use_;
}

// Returns the index of the block's use on this stream, which is added if there is none. Hold the mutex in this function
// and in the following ones, up to take_free.
std::size_t PinnedAllocator::use_on(PinnedBlock& block, StreamHandle stream) {
  for (std::size_t i = 0; i < block.uses.size(); ++i)
    if (block.uses[i].stream.device == stream.device && block.uses[i].stream.id == stream.id) return i;
  block.uses.reserve(block.uses.size() + 1);
  block.uses.push_back({.stream = stream, .event = backend_.create_event(stream.device)});
  return block.uses.size() - 1;
}

// Returns true if no copy from the block is pending. Returns false if a device is lost, because its events cannot be
// queried.
bool PinnedAllocator::is_idle(PinnedBlock& block) noexcept try {
  return !block.is_unknown && copies_have_ended(block);
} catch (...) {
  return false;
}

bool PinnedAllocator::copies_have_ended(PinnedBlock& block) {
  for (PinnedBlock::Use& use : block.uses) {
    if (use.recorded == use.ended) continue;
    const bool ended =
        hooks_ ? hooks_->query_use(use.event, block.memory, block.bytes) : backend_.query_event(use.event);
    if (!ended) return false;
    use.ended = use.recorded;
  }
  return true;
}

PinnedBlock* PinnedAllocator::take_free(FreeList& free) noexcept {
  for (PinnedBlock** link = &free; *link; link = &(*link)->next_free)
    if (is_idle(**link)) return std::exchange(*link, (*link)->next_free);
  return nullptr;
}

// Returns null if the backend has no more pinned memory.
PinnedBlock* PinnedAllocator::take_new(std::size_t bytes) {
  void* const memory = backend_.allocate_pinned(bytes);
  if (!memory) return nullptr;
  try {
    std::unique_ptr<PinnedBlock> block(new PinnedBlock{*this, memory, bytes});
    const std::scoped_lock lock(mutex_);
    return blocks_.emplace_back(std::move(block)).get();
  } catch (...) {
    backend_.deallocate_pinned(memory, bytes);
    throw;
  }
}

void PinnedAllocator::give_back_free() noexcept {
  for (;;) {
    std::unique_ptr<PinnedBlock> gone;
    {
      const std::scoped_lock lock(mutex_);
      PinnedBlock* ended = nullptr;
      for (FreeList& free : free_)
        if (!ended) ended = take_free(free);
      if (!ended) return;
      const auto owner = std::ranges::find(blocks_, ended, &std::unique_ptr<PinnedBlock>::get);
      gone = std::move(*owner);
      blocks_.erase(owner);
    }
    for (const PinnedBlock::Use& use : gone->uses) backend_.destroy_event(use.event);
    backend_.deallocate_pinned(gone->memory, gone->bytes);
  }
}

}  // namespace lockstep
