#include "backends/cuda/pinned_cache.h"

#include <utility>

namespace lockstep::gpu {

PinnedBuffer PinnedCache::take(std::size_t bytes, const Wait& wait) {
  int size_class = 0;
  std::size_t class_bytes = 4096;
  for (; class_bytes < bytes; class_bytes *= 4) ++size_class;

  PinnedBuffer buffer;
  {
    const std::scoped_lock lock(mutex_);
    auto& given = given_[std::size_t(size_class)];
    const bool has_most = given.size() >= kMaxBytes / class_bytes;
    if (has_most || (!given.empty() && has_ended(given.front().ended.get(), device_))) {
      buffer = std::move(given.front());
      given.pop_front();
    }
  }
  if (buffer.memory) {
    wait(buffer.ended.get());
    return buffer;
  }
  void* memory = nullptr;
  use_card(card_);
  const std::scoped_lock issue_lock(issue_mutex_);
  check(cudaHostAlloc(&memory, class_bytes, cudaHostAllocPortable), "cudaHostAlloc", device_);
  buffer.memory.reset(memory);
  buffer.ended = make_event(device_);
  buffer.size_class = size_class;
  return buffer;
}

void PinnedCache::give(PinnedBuffer buffer) {
  const std::scoped_lock lock(mutex_);
  given_[std::size_t(buffer.size_class)].push_back(std::move(buffer));
}

}  // namespace lockstep::gpu
