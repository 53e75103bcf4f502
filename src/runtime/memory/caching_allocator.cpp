#include "runtime/memory/caching_allocator.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>

#include "core/ranked_mutex.h"
#include "core/spin_mutex.h"
#include "runtime/memory/segregated_fit.h"
#include "runtime/memory/stream_uses.h"

namespace lockstep {

namespace {

constexpr std::size_t kMiB = std::size_t(1) << 20;

// Segment sizes as in PyTorch's CUDACachingAllocator. Small requests are served from small segments, so that they do
// not fragment large segments. Each very large request gets its own segment.
constexpr std::size_t kSmallRequest = kMiB;
constexpr std::size_t kSmallSegment = 2 * kMiB;
constexpr std::size_t kMediumRequest = 10 * kMiB;
constexpr std::size_t kMediumSegment = 20 * kMiB;
constexpr std::size_t kLargeGranularity = 2 * kMiB;

// Larger requests fail. Requests up to this size do not overflow when they are rounded up.
constexpr std::size_t kLargestRequest = std::numeric_limits<std::size_t>::max() / 2;

constexpr std::chrono::microseconds kPollInterval(20);

constexpr std::size_t round_up(std::size_t bytes, std::size_t granularity) noexcept {
  return (bytes + granularity - 1) & ~(granularity - 1);
}

constexpr std::size_t segment_bytes(std::size_t bytes) noexcept {
  if (bytes <= kSmallRequest) return kSmallSegment;
  if (bytes <= kMediumRequest) return kMediumSegment;
  return round_up(bytes, kLargeGranularity);
}

}  // namespace

/// The free blocks of one stream and size class.
struct Pool {
  Pool(BlockHeaders& headers, std::size_t granularity, StreamHandle on, CapturePool* owner)
      : stream(on), fit(headers, granularity), of_capture(owner) {}

  const StreamHandle stream;
  SegregatedFit fit;
  CapturePool* of_capture;  // the pool of a capture that these blocks belong to; null for the cache
};

struct CapturePool {
  std::vector<std::unique_ptr<Pool>> pools;  // indexed as the allocator's pools
  Block* kept = nullptr;                     // blocks freed during the capture, linked by next_free
};

struct CachingAllocator::Impl {
  Impl(Backend& owner, int index, std::size_t most_bytes, AllocatorHooks* told)
      : backend(owner),
        hooks(told),
        device(index),
        limit(most_bytes),
        granularity(owner.type() == DeviceType::cpu ? 64 : 512),
        uses(owner, told) {}

  using Mutex = RankedMutex<LockRank::allocator, SpinMutex>;
  using Lock = std::unique_lock<Mutex>;

  Block* take(Lock& lock, std::size_t bytes, StreamHandle stream, MayWait may_wait);
  Block* take_or_make_room(Lock& lock, Pool& pool, std::size_t bytes);
  Block* take_in_capture(Lock& lock, Pool& pool, std::size_t bytes, MayWait may_wait);
  Block* take_cached(Pool& pool, std::size_t bytes);
  Block* take_from_new_segment(Lock& lock, Pool& pool, std::size_t bytes, std::size_t size_of_segment);
  void* memory_for_segment(Lock& lock, std::size_t bytes);
  void reserve_segment();
  Pool& pool_for(std::size_t bytes, StreamHandle stream);
  std::size_t index_of(std::size_t bytes, StreamHandle stream) const noexcept;
  void free_in_capture(Block* block) noexcept;
  void move_segment(Block* first, Pool& into) noexcept;
  void adopt(std::unique_ptr<Pool> from, std::unique_ptr<Pool>& into) noexcept;

  void discard(const Block& block) noexcept;
  void collect_ended() noexcept;
  void wait_for_deferred(Lock& lock);
  void empty_cache(Lock& lock);
  void give_back_cached(Lock& lock);
  void release_everything() noexcept;

  std::size_t capacity() const;
  [[noreturn]] void throw_out_of_memory(Lock& lock, std::size_t requested) const;

  Backend& backend;
  AllocatorHooks* const hooks;
  const int device;
  const std::size_t limit;
  const std::size_t granularity;

  // A spin lock, because locking a std::mutex twice would take longer than the rest of an allocation and its release.
  // Held for nanoseconds only, and never while the backend allocates or frees memory, which may wait for the device.
  Mutex mutex;
  // Guarded by the mutex:
  BlockHeaders headers;
  std::vector<std::unique_ptr<Pool>> pools;  // small and large requests of stream 0, of stream 1, ...
  std::vector<Block*> segments;              // the first block of each segment
  int in_backend = 0;                        // number of threads that are allocating or freeing segments
  StreamUses uses;
  MemoryStats stats;
  CapturePool* capturing = nullptr;                    // during a capture, the pool that serves requests; else null
  std::vector<std::unique_ptr<CapturePool>> captured;  // the pools of the current capture and of existing graphs
};

// Returns null if the device is full even after its cache was emptied, or, if it may not wait, before that.
Block* CachingAllocator::Impl::take(Lock& lock, std::size_t bytes, StreamHandle stream, MayWait may_wait) {
  const std::size_t rounded = round_up(bytes, granularity);
  Pool& pool = pool_for(rounded, stream);
  if (uses.has_deferred() && !capturing) collect_ended();
  if (Block* block = take_cached(pool, rounded)) return block;
  if (rounded > capacity()) return nullptr;
  if (capturing) return take_in_capture(lock, pool, rounded, may_wait);
  if (may_wait == MayWait::yes) return take_or_make_room(lock, pool, rounded);
  if (Block* block = take_from_new_segment(lock, pool, rounded, segment_bytes(rounded))) return block;
  return take_from_new_segment(lock, pool, rounded, rounded);
}

// Moves whole free segments of the same stream from the cache into the capture's pool. This is safe because, in stream
// order, all earlier uses of these segments come before the captured work.
Block* CachingAllocator::Impl::take_in_capture(Lock& lock, Pool& pool, std::size_t bytes, MayWait may_wait) {
  const std::unique_ptr<Pool>& cached = pools[index_of(bytes, pool.stream)];
  Block* least = nullptr;
  for (Block* first : segments)
    if (first->pool == cached.get() && first->is_whole_free_segment() && first->bytes >= bytes)
      if (!least || first->bytes < least->bytes) least = first;
  if (least) {
    move_segment(least, pool);
    return pool.fit.take(bytes);
  }
  if (Block* block = take_from_new_segment(lock, pool, bytes, segment_bytes(bytes))) return block;
  if (may_wait == MayWait::yes) {
    ++stats.retries;
    give_back_cached(lock);
    if (Block* block = take_from_new_segment(lock, pool, bytes, segment_bytes(bytes))) return block;
  }
  return take_from_new_segment(lock, pool, bytes, bytes);
}

Block* CachingAllocator::Impl::take_or_make_room(Lock& lock, Pool& pool, std::size_t bytes) {
  if (Block* block = take_from_new_segment(lock, pool, bytes, segment_bytes(bytes))) return block;
  wait_for_deferred(lock);
  if (Block* block = take_cached(pool, bytes)) return block;
  ++stats.retries;
  // While the lock is not held, other threads may put memory into the cache again. In that case empty the cache once
  // more, but not more often, because other threads might continue forever.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::size_t before = stats.frees + stats.backend_allocations;
    empty_cache(lock);
    if (Block* block = take_cached(pool, bytes)) return block;
    if (Block* block = take_from_new_segment(lock, pool, bytes, segment_bytes(bytes))) return block;
    if (Block* block = take_from_new_segment(lock, pool, bytes, bytes)) return block;
    if (stats.frees + stats.backend_allocations == before) break;
  }
  return nullptr;
}

Block* CachingAllocator::Impl::take_cached(Pool& pool, std::size_t bytes) {
  headers.reserve();
  return pool.fit.take(bytes);
}

// Returns null if the backend or the limit has no room for the segment.
Block* CachingAllocator::Impl::take_from_new_segment(Lock& lock, Pool& pool, std::size_t bytes,
                                                     std::size_t size_of_segment) {
  if (limit != 0 && size_of_segment > limit - stats.reserved) return nullptr;
  void* const memory = memory_for_segment(lock, size_of_segment);
  if (memory == nullptr) return nullptr;
  stats.peak_reserved = std::max(stats.peak_reserved, stats.reserved);
  ++stats.backend_allocations;

  Block* whole = headers.take();
  *whole = {.memory = static_cast<std::byte*>(memory), .bytes = size_of_segment, .pool = &pool};
  segments.push_back(whole);
  pool.fit.give(whole);
  return pool.fit.take(bytes);
}

// Unlocks the mutex while the backend allocates, so that other threads can use the cache. During this time the bytes
// count as reserved. On return there is a free header for the segment.
void* CachingAllocator::Impl::memory_for_segment(Lock& lock, std::size_t bytes) {
  stats.reserved += bytes;
  ++in_backend;
  lock.unlock();
  void* memory = nullptr;
  try {
    memory = backend.allocate(device, bytes);
    lock.lock();
    reserve_segment();
  } catch (...) {
    if (lock.owns_lock()) lock.unlock();
    if (memory != nullptr) backend.deallocate(device, memory, bytes);
    lock.lock();
    --in_backend;
    stats.reserved -= bytes;
    throw;
  }
  --in_backend;
  if (memory == nullptr) stats.reserved -= bytes;
  return memory;
}

// Reserves two headers: one for the segment, one for the remainder after a split.
void CachingAllocator::Impl::reserve_segment() {
  headers.reserve();
  if (segments.size() == segments.capacity()) segments.reserve(2 * segments.size() + 8);
}

std::size_t CachingAllocator::Impl::index_of(std::size_t bytes, StreamHandle stream) const noexcept {
  return 2 * std::size_t(stream.id) + (bytes > kSmallRequest ? 1 : 0);
}

Pool& CachingAllocator::Impl::pool_for(std::size_t bytes, StreamHandle stream) {
  auto& present = capturing ? capturing->pools : pools;
  const std::size_t index = index_of(bytes, stream);
  if (index < present.size() && present[index]) return *present[index];
  if (index >= pools.size()) pools.resize(index + 1);
  if (index >= present.size()) present.resize(index + 1);
  present[index] = std::make_unique<Pool>(headers, granularity, stream, capturing);
  return *present[index];
}

// A block of the capture that only its own stream used is reused in stream order. All other blocks are kept until the
// capture ends, because the order of other streams is not known yet, and because blocks from before the capture must
// exist at each replay.
void CachingAllocator::Impl::free_in_capture(Block* block) noexcept {
  if (!block->uses && block->pool->of_capture == capturing) return block->pool->fit.give(block);
  block->next_free = std::exchange(capturing->kept, block);
}

// Moves all blocks of a pool to another pool of the same stream.
void CachingAllocator::Impl::adopt(std::unique_ptr<Pool> from, std::unique_ptr<Pool>& into) noexcept {
  if (!from) return;
  if (!into) {
    from->of_capture = nullptr;
    into = std::move(from);
    return;
  }
  for (Block* first : segments)
    if (first->pool == from.get()) move_segment(first, *into);
}

void CachingAllocator::Impl::move_segment(Block* first, Pool& into) noexcept {
  SegregatedFit& from = first->pool->fit;
  for (Block* block = first; block; block = block->next) {
    block->pool = &into;
    if (!block->free) continue;
    from.remove(block);
    into.fit.give(block);
  }
}

void CachingAllocator::Impl::discard(const Block& block) noexcept {
  if (hooks) hooks->discard(block.pool->stream, block.memory, block.bytes);
}

void CachingAllocator::Impl::collect_ended() noexcept {
  for (Block* block = uses.collect(); block != nullptr;) {
    Block* next = block->next_free;
    discard(*block);
    block->pool->fit.give(block);
    block = next;
  }
}

// Waits for the blocks deferred so far, and for segments that other threads are allocating or freeing. Meanwhile other
// threads can allocate and free, because the awaited work may depend on such a thread.
void CachingAllocator::Impl::wait_for_deferred(Lock& lock) {
  const std::uint64_t ticket = uses.last_ticket();
  collect_ended();
  while (uses.is_waiting(ticket) || in_backend != 0) {
    lock.unlock();
    std::this_thread::sleep_for(kPollInterval);
    backend.poll_failures();
    lock.lock();
    collect_ended();
  }
}

void CachingAllocator::Impl::empty_cache(Lock& lock) {
  wait_for_deferred(lock);
  give_back_cached(lock);
}

// Gives free segments back to the backend. Unlocks the mutex while the backend waits for the device's work.
void CachingAllocator::Impl::give_back_cached(Lock& lock) {
  Block* released = nullptr;
  std::erase_if(segments, [&](Block* first) {
    if (!first->is_whole_free_segment() || first->pool->of_capture) return false;
    first->pool->fit.remove(first);
    first->next_free = std::exchange(released, first);
    return true;
  });

  ++in_backend;
  lock.unlock();
  for (Block* block = released; block != nullptr; block = block->next_free) {
    backend.deallocate(device, block->memory, block->bytes);
  }
  lock.lock();
  --in_backend;
  while (released != nullptr) {
    stats.reserved -= released->bytes;
    ++stats.backend_frees;
    headers.give(std::exchange(released, released->next_free));
  }
}

void CachingAllocator::Impl::release_everything() noexcept {
  for (const Block* first : segments) {
    std::size_t bytes = 0;
    for (const Block* block = first; block != nullptr; block = block->next) bytes += block->bytes;
    backend.deallocate(device, first->memory, bytes);
  }
}

// The total memory, in bytes: no larger request can ever succeed.
std::size_t CachingAllocator::Impl::capacity() const {
  return limit != 0 ? limit : backend.properties(device).memory_bytes;
}

void CachingAllocator::Impl::throw_out_of_memory(Lock& lock, std::size_t requested) const {
  const std::size_t in_use = stats.in_use;
  const std::size_t cached = stats.reserved - in_use;
  lock.unlock();
  const Device name = backend.type() == DeviceType::cpu ? Device() : Device::cuda(device);
  OutOfMemory error(name.name(), {.requested = requested, .in_use = in_use, .cached = cached, .limit = capacity()});
  if (const std::string setting = backend.properties(device).memory_setting; !setting.empty())
    error.add_context(setting);
  throw error;
}

CachingAllocator::CachingAllocator(Backend& backend, int device, std::size_t limit, AllocatorHooks* hooks)
    : impl_(std::make_unique<Impl>(backend, device, limit, hooks)) {}

CachingAllocator::~CachingAllocator() { impl_->release_everything(); }

CachingAllocator::Allocation CachingAllocator::allocate(std::size_t bytes, StreamHandle stream, MayWait may_wait) {
  if (bytes == 0) return {};
  Impl& impl = *impl_;
  const bool admitted = !impl.hooks || impl.hooks->admits(impl.device, bytes);
  Impl::Lock lock(impl.mutex);
  if (!admitted) {
    if (may_wait == MayWait::yes) {
      ++impl.stats.retries;
      impl.empty_cache(lock);
    }
    impl.throw_out_of_memory(lock, bytes);
  }
  Block* block = bytes <= kLargestRequest ? impl.take(lock, bytes, stream, may_wait) : nullptr;
  if (block == nullptr) impl.throw_out_of_memory(lock, bytes);

  ++impl.stats.allocations;
  impl.stats.in_use += block->bytes;
  impl.stats.peak_in_use = std::max(impl.stats.peak_in_use, impl.stats.in_use);
  lock.unlock();
  impl.discard(*block);
  return {block->memory, block};
}

void CachingAllocator::free(Block* block) noexcept {
  if (block == nullptr) return;
  Impl& impl = *impl_;
  const bool is_used_elsewhere = block->uses != nullptr;
  if (!is_used_elsewhere) impl.discard(*block);
  const std::scoped_lock lock(impl.mutex);
  ++impl.stats.frees;
  impl.stats.in_use -= block->bytes;
  if (impl.capturing) {
    impl.free_in_capture(block);
  } else if (is_used_elsewhere) {
    impl.uses.defer(*block);
  } else {
    block->pool->fit.give(block);
  }
}

void CachingAllocator::record_stream(Block* block, StreamHandle stream) {
  const StreamHandle own = block->pool->stream;
  if (stream.device == own.device && stream.id == own.id) return;
  const std::scoped_lock lock(impl_->mutex);
  impl_->uses.add(*block, stream);
}

bool CachingAllocator::is_used_elsewhere(const Block* block) const {
  const std::scoped_lock lock(impl_->mutex);
  return block->uses != nullptr;
}

void CachingAllocator::begin_capture() {
  const std::scoped_lock lock(impl_->mutex);
  impl_->captured.push_back(std::make_unique<CapturePool>());
  impl_->capturing = impl_->captured.back().get();
}

CapturePool* CachingAllocator::end_capture() noexcept {
  const std::scoped_lock lock(impl_->mutex);
  return std::exchange(impl_->capturing, nullptr);
}

void CachingAllocator::release(CapturePool* pool) noexcept {
  Impl& impl = *impl_;
  const std::scoped_lock lock(impl.mutex);
  for (Block* block = std::exchange(pool->kept, nullptr); block;) {
    Block* const next = block->next_free;
    if (block->uses)
      impl.uses.defer(*block);
    else
      block->pool->fit.give(block);
    block = next;
  }
  for (std::size_t i = 0; i < pool->pools.size(); ++i)
    if (pool->pools[i]) impl.adopt(std::move(pool->pools[i]), impl.pools[i]);
  std::erase_if(impl.captured, [&](const auto& own) { return own.get() == pool; });
}

MemoryStats CachingAllocator::stats() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->stats;
}

void CachingAllocator::reset_peaks() {
  const std::scoped_lock lock(impl_->mutex);
  impl_->stats.peak_in_use = impl_->stats.in_use;
  impl_->stats.peak_reserved = impl_->stats.reserved;
}

void CachingAllocator::empty_cache() {
  Impl::Lock lock(impl_->mutex);
  if (impl_->capturing) return;
  impl_->empty_cache(lock);
}

}  // namespace lockstep
