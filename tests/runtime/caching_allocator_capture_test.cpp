// The memory of captured work: nothing else gets its addresses as long as the work can be replayed.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "runtime/fake_backend.h"
#include "runtime/memory/caching_allocator.h"

namespace lockstep {
namespace {

using Allocation = CachingAllocator::Allocation;

constexpr std::size_t kBytes = 400'000;  // five to a segment

struct CaptureOfMemory : ::testing::Test {
  FakeBackend backend;
  CachingAllocator allocator{backend, 0};

  // Returns true if one of `count` new allocations gets this memory.
  bool lies_in_use_again(void* memory, int count) {
    std::vector<Allocation> live;
    bool found = false;
    for (int i = 0; i < count; ++i) {
      live.push_back(allocator.allocate(kBytes, kStream));
      found = found || live.back().memory == memory;
    }
    for (const Allocation& allocation : live) allocator.free(allocation.block);
    return found;
  }
};

TEST_F(CaptureOfMemory, IsNotTheCachesMemory) {
  const Allocation live = allocator.allocate(kBytes, kStream), before = allocator.allocate(kBytes, kStream);
  allocator.free(before.block);
  allocator.begin_capture();
  const Allocation in_capture = allocator.allocate(kBytes, kStream);
  EXPECT_NE(in_capture.memory, before.memory);
  allocator.free(in_capture.block);
  EXPECT_EQ(allocator.allocate(kBytes, kStream).memory, in_capture.memory);  // reused in stream order
  allocator.release(allocator.end_capture());
  allocator.free(live.block);
}

TEST_F(CaptureOfMemory, TakesSegmentsFromTheCache) {
  allocator.free(allocator.allocate(kBytes, kStream).block);
  for (int capture = 0; capture < 3; ++capture) {
    allocator.begin_capture();
    allocator.free(allocator.allocate(kBytes, kStream).block);
    allocator.release(allocator.end_capture());
  }
  EXPECT_EQ(backend.counts().allocations, 1);
}

TEST_F(CaptureOfMemory, KeepsTheSegmentsThatItTookFromTheCache) {
  allocator.free(allocator.allocate(kBytes, kStream).block);
  allocator.begin_capture();
  const Allocation in_capture = allocator.allocate(kBytes, kStream);
  allocator.free(in_capture.block);
  CapturePool* const pool = allocator.end_capture();
  EXPECT_FALSE(lies_in_use_again(in_capture.memory, 10));
  allocator.release(pool);
  EXPECT_TRUE(lies_in_use_again(in_capture.memory, 100));
}

// Memory cached for another stream is freed, and the device gives it to the capture.
TEST_F(CaptureOfMemory, TakesTheDevicesMemoryBackFromTheCache) {
  CachingAllocator full(backend, 0, 64 << 20);
  full.free(full.allocate(50 << 20, kOther).block);
  full.begin_capture();
  const int queries = backend.counts().queries;
  const Allocation in_capture = full.allocate(30 << 20, kStream);
  EXPECT_EQ(backend.counts().queries, queries);
  EXPECT_EQ(full.stats().reserved, 30u << 20);
  full.free(in_capture.block);
  full.release(full.end_capture());
}

TEST_F(CaptureOfMemory, StaysWhenTheCacheIsEmptied) {
  allocator.begin_capture();
  allocator.free(allocator.allocate(kBytes, kStream).block);
  CapturePool* const pool = allocator.end_capture();
  const std::size_t held = backend.held_bytes();
  allocator.empty_cache();
  EXPECT_EQ(backend.held_bytes(), held);
  allocator.release(pool);
  allocator.empty_cache();
  EXPECT_EQ(backend.held_bytes(), 0u);
}

TEST_F(CaptureOfMemory, StaysWithItUntilItIsReleased) {
  allocator.begin_capture();
  const Allocation freed = allocator.allocate(kBytes, kStream), kept = allocator.allocate(kBytes, kStream);
  allocator.free(freed.block);
  CapturePool* const pool = allocator.end_capture();
  EXPECT_FALSE(lies_in_use_again(freed.memory, 10));
  allocator.free(kept.block);  // a result without owners
  EXPECT_FALSE(lies_in_use_again(kept.memory, 10));
  allocator.release(pool);
  EXPECT_TRUE(lies_in_use_again(freed.memory, 100));
  EXPECT_TRUE(lies_in_use_again(kept.memory, 100));
}

TEST_F(CaptureOfMemory, MayBeFreedAfterItsRelease) {
  allocator.begin_capture();
  const Allocation kept = allocator.allocate(kBytes, kStream);
  allocator.release(allocator.end_capture());
  EXPECT_FALSE(lies_in_use_again(kept.memory, 10));
  allocator.free(kept.block);
  EXPECT_TRUE(lies_in_use_again(kept.memory, 100));
}

TEST_F(CaptureOfMemory, KeepsWhatWasThereBefore) {
  const Allocation before = allocator.allocate(kBytes, kStream);
  allocator.begin_capture();
  allocator.free(before.block);
  EXPECT_FALSE(lies_in_use_again(before.memory, 10));
  CapturePool* const pool = allocator.end_capture();
  EXPECT_FALSE(lies_in_use_again(before.memory, 10));
  allocator.release(pool);
  EXPECT_TRUE(lies_in_use_again(before.memory, 100));
}

TEST_F(CaptureOfMemory, IsNotReusedByItWhereOtherStreamsUsedIt) {
  allocator.begin_capture();
  const Allocation used = allocator.allocate(kBytes, kStream);
  allocator.record_stream(used.block, kOther);
  allocator.free(used.block);
  EXPECT_NE(allocator.allocate(kBytes, kStream).memory, used.memory);
  const int queries = backend.counts().queries;
  CapturePool* const pool = allocator.end_capture();
  EXPECT_EQ(backend.counts().queries, queries);  // captured work cannot be queried
  allocator.release(pool);
}

TEST_F(CaptureOfMemory, CountsAsBefore) {
  allocator.begin_capture();
  const Allocation one = allocator.allocate(kBytes, kStream);
  allocator.free(one.block);
  allocator.release(allocator.end_capture());
  EXPECT_EQ(allocator.stats().in_use, 0u);
  EXPECT_EQ(allocator.stats().allocations, 1u);
  allocator.empty_cache();
  EXPECT_EQ(allocator.stats().reserved, 0u);
}

}  // namespace
}  // namespace lockstep
