// The caching allocator when the device is full, on a fake backend: what it frees first, and its errors.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/core/error.h>

#include "runtime/fake_backend.h"
#include "runtime/memory/caching_allocator.h"

namespace lockstep {
namespace {

using Allocation = CachingAllocator::Allocation;

// Returns the error of a request that must fail.
OutOfMemory out_of_memory(CachingAllocator& allocator, std::size_t bytes) {
  try {
    allocator.allocate(bytes, kStream);
  } catch (const OutOfMemory& error) {
    return error;
  }
  ADD_FAILURE() << "expected OutOfMemory for " << bytes << " bytes";
  return OutOfMemory("", {});
}

TEST(CachingAllocatorLimits, HugeRequestsAreOutOfMemory) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const std::size_t largest = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {largest, largest - 511, largest - 2 * kMiB, largest / 2 + 1, largest / 2}) {
    EXPECT_EQ(out_of_memory(allocator, bytes).sizes.requested, bytes);
  }
}

TEST(CachingAllocatorLimits, ARequestLargerThanTheDeviceLeavesTheCacheAlone) {
  FakeBackend backend({.memory_bytes = 64 * kMiB});
  CachingAllocator allocator(backend, 0);
  allocator.free(allocator.allocate(1000, kStream).block);
  out_of_memory(allocator, 64 * kMiB + 1);
  EXPECT_EQ(allocator.stats().reserved, 2 * kMiB);
}

TEST(CachingAllocatorLimits, GivesTheCacheOfAllStreamsBackWhenTheDeviceIsFull) {
  FakeBackend backend({.memory_bytes = 42 * kMiB});
  CachingAllocator allocator(backend, 0);
  allocator.free(allocator.allocate(20 * kMiB, kOther).block);
  allocator.free(allocator.allocate(12 * kMiB, kStream).block);
  EXPECT_NE(allocator.allocate(40 * kMiB, kStream).memory, nullptr);
  EXPECT_EQ(allocator.stats().retries, 1u);
}

TEST(CachingAllocatorLimits, KeepsSegmentsInUseWhenTheDeviceIsFull) {
  FakeBackend backend({.memory_bytes = 42 * kMiB});
  CachingAllocator allocator(backend, 0);
  const Allocation kept = allocator.allocate(2 * kMiB, kOther);
  allocator.allocate(2 * kMiB, kStream);
  std::memset(kept.memory, 1, 2 * kMiB);
  out_of_memory(allocator, 30 * kMiB);
  EXPECT_EQ(allocator.stats().backend_frees, 0u);
}

TEST(CachingAllocatorLimits, WaitsForWorkOnOtherStreamsBeforeItGivesUp) {
  FakeBackend backend({.memory_bytes = 40 * kMiB});
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(40 * kMiB, kStream);
  allocator.record_stream(first.block, kOther);
  allocator.free(first.block);
  backend.settings.queries_until_end = 3;
  EXPECT_EQ(allocator.allocate(40 * kMiB, kStream).memory, first.memory);
}

// Neither for work, nor until the backend has taken memory back, which may wait for work.
TEST(CachingAllocatorLimits, ARequestThatMayNotWaitFailsInstead) {
  FakeBackend backend({.memory_bytes = 40 * kMiB});
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(20 * kMiB, kStream);
  allocator.free(allocator.allocate(20 * kMiB, kOther).block);
  allocator.record_stream(first.block, kOther);
  allocator.free(first.block);
  backend.settings.queries_until_end = 3;
  for (int query = 0; query < 2; ++query)
    EXPECT_THROW(allocator.allocate(20 * kMiB, kStream, MayWait::no), OutOfMemory) << query;
  EXPECT_EQ(allocator.allocate(20 * kMiB, kStream, MayWait::no).memory, first.memory);
  EXPECT_EQ(allocator.stats().backend_frees, 0u);
}

TEST(CachingAllocatorLimits, ARequestThatMayNotWaitTakesTheLastMemory) {
  FakeBackend backend({.memory_bytes = 3 * kMiB});
  CachingAllocator allocator(backend, 0);
  EXPECT_NE(allocator.allocate(3 * kMiB, kStream, MayWait::no).memory, nullptr);
}

TEST(CachingAllocatorLimits, WaitsAgainForWorkThatCouldNotBeAskedOnce) {
  FakeBackend backend({.memory_bytes = 40 * kMiB});
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(40 * kMiB, kStream);
  allocator.record_stream(first.block, kOther);
  allocator.free(first.block);
  backend.settings.failing_queries = 1;
  backend.settings.queries_until_end = 3;
  EXPECT_EQ(allocator.allocate(40 * kMiB, kStream).memory, first.memory);
}

// Otherwise it would wait forever for a thread that frees again and again.
TEST(CachingAllocatorLimits, DoesNotWaitForBlocksFreedSince) {
  FakeBackend backend({.memory_bytes = 40 * kMiB});
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(20 * kMiB, kStream), second = allocator.allocate(20 * kMiB, kStream);
  allocator.record_stream(first.block, kOther);
  allocator.record_stream(second.block, kThird);
  allocator.free(first.block);
  auto waiting = std::async(std::launch::async, [&] { return allocator.allocate(20 * kMiB, kStream).memory; });
  while (backend.counts().refusals == 0) std::this_thread::yield();
  while (backend.counts().queries < 3) std::this_thread::yield();  // by the allocation, then by its wait
  allocator.free(second.block);
  backend.finish(kOther);
  EXPECT_EQ(waiting.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  backend.finish(kThird);
  EXPECT_EQ(waiting.get(), first.memory);
}

// The device is full, mostly with a used block, which is freed while the cache is emptied.
void free_while_the_cache_is_emptied(StreamHandle stream_of_the_freed, std::size_t requested) {
  FakeBackend backend({.memory_bytes = 40 * kMiB});
  CachingAllocator allocator(backend, 0);
  const Allocation used = allocator.allocate(28 * kMiB, stream_of_the_freed);
  allocator.free(allocator.allocate(12 * kMiB, kThird).block);
  backend.settings.on_deallocation = [&] { allocator.free(used.block); };
  EXPECT_NE(allocator.allocate(requested, kStream).memory, nullptr);
  EXPECT_EQ(allocator.stats().in_use, requested);
  EXPECT_EQ(allocator.stats().retries, 1u);
}

TEST(CachingAllocatorLimits, TakesWhatIsFreedWhileTheCacheIsEmptied) {
  free_while_the_cache_is_emptied(kStream, 28 * kMiB);
  free_while_the_cache_is_emptied(kOther, 28 * kMiB);
}

TEST(CachingAllocatorLimits, GivesBackWhatIsFreedWhileTheCacheIsEmptied) {
  free_while_the_cache_is_emptied(kStream, 40 * kMiB);
  free_while_the_cache_is_emptied(kOther, 40 * kMiB);
}

// The device has no room until the other thread's release has ended, and plenty after it.
TEST(CachingAllocatorLimits, WaitsForWhatAnotherThreadGivesBack) {
  FakeBackend backend({.memory_bytes = 40 * kMiB});
  CachingAllocator allocator(backend, 0);
  allocator.free(allocator.allocate(40 * kMiB, kOther).block);
  std::future<void> other;
  backend.settings.on_deallocation = [&] {
    other = std::async(std::launch::async, [&] { allocator.allocate(40 * kMiB, kStream); });
    while (backend.counts().refusals == 0) std::this_thread::yield();
    other.wait_for(std::chrono::milliseconds(20));  // enough time to give up
  };
  allocator.empty_cache();
  EXPECT_NO_THROW(other.get());
}

// Runs body on another thread while the backend allocates; it must end before the backend does.
template <class F>
auto meanwhile(const F& body) {
  auto result = std::async(std::launch::async, body);
  EXPECT_EQ(result.wait_for(std::chrono::seconds(5)), std::future_status::ready) << "waits for the backend";
  return result;
}

TEST(CachingAllocatorLimits, OthersUseTheCacheWhileTheBackendAllocates) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  allocator.free(allocator.allocate(1000, kStream).block);
  std::future<void> other;
  backend.settings.on_allocation = [&] {
    other = meanwhile([&] {
      const Allocation cached = allocator.allocate(1000, kStream);
      allocator.record_stream(cached.block, kOther);
      allocator.free(cached.block);
      allocator.stats();
    });
  };
  EXPECT_NE(allocator.allocate(30 * kMiB, kStream).memory, nullptr);
  EXPECT_TRUE(other.valid());
}

TEST(CachingAllocatorLimits, SharesTheSegmentThatAnotherThreadTakesFromTheBackend) {
  FakeBackend backend({.memory_bytes = 20 * kMiB});  // one segment
  CachingAllocator allocator(backend, 0);
  std::future<Allocation> other;
  backend.settings.on_allocation = [&] {
    other = std::async(std::launch::async, [&] {
      while (backend.counts().allocations == 0) std::this_thread::yield();
      return allocator.allocate(2 * kMiB, kStream);
    });
  };
  EXPECT_NE(allocator.allocate(2 * kMiB, kStream).memory, nullptr);
  EXPECT_NE(other.get().memory, nullptr);
}

TEST(CachingAllocatorLimits, CountsNothingWhereTheBackendThrows) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  backend.settings.on_allocation = [] { throw BackendError("allocate", 1, "cuda:0", "injected"); };
  EXPECT_THROW(allocator.allocate(1000, kStream), BackendError);
  EXPECT_EQ(allocator.stats().reserved, 0u);
  EXPECT_NE(allocator.allocate(1000, kStream).memory, nullptr);
  EXPECT_EQ(allocator.stats().reserved, 2 * kMiB);
}

// Work that hangs on a failed collective ends when poll_failures() is called.
TEST(CachingAllocatorLimits, LooksForFailuresWhileItWaits) {
  FakeBackend backend({.memory_bytes = 20 * kMiB});
  CachingAllocator allocator(backend, 0);
  const Allocation used = allocator.allocate(20 * kMiB, kStream);
  allocator.record_stream(used.block, kOther);
  allocator.free(used.block);
  backend.settings.queries_until_end = 10;
  EXPECT_NE(allocator.allocate(20 * kMiB, kThird).memory, nullptr);
  EXPECT_GT(backend.counts().looks, 0);
}

// Otherwise a request that is too large would wait forever for threads that keep allocating and freeing.
TEST(CachingAllocatorLimits, GivesUpAlthoughMemoryIsFreedAgainAndAgain) {
  FakeBackend backend({.memory_bytes = 60 * kMiB});
  CachingAllocator allocator(backend, 0);
  allocator.allocate(20 * kMiB, kStream);
  const auto allocate_and_free = [&] { allocator.free(allocator.allocate(20 * kMiB, kOther).block); };
  std::function<void()> again = [&] {
    allocate_and_free();
    backend.settings.on_deallocation = again;
  };
  allocate_and_free();
  backend.settings.on_deallocation = again;
  out_of_memory(allocator, 50 * kMiB);
  backend.settings.on_deallocation = nullptr;
}

TEST(CachingAllocatorLimits, UsesTheLastMemoryWithoutRoundingUpToASegment) {
  FakeBackend backend({.memory_bytes = 3 * kMiB});
  CachingAllocator allocator(backend, 0);
  EXPECT_NE(allocator.allocate(3 * kMiB, kStream).memory, nullptr);
}

TEST(CachingAllocatorLimits, OutOfMemoryTellsAllSizes) {
  FakeBackend backend({.memory_bytes = 50 * kMiB});
  CachingAllocator allocator(backend, 0);
  allocator.allocate(8 * kMiB, kStream);
  const OutOfMemory error = out_of_memory(allocator, 40 * kMiB);
  EXPECT_EQ(error.device, "cuda:0");
  EXPECT_EQ(error.sizes.requested, 40 * kMiB);
  EXPECT_EQ(error.sizes.in_use, 8 * kMiB);
  EXPECT_EQ(error.sizes.cached, 12 * kMiB);
  EXPECT_EQ(error.sizes.limit, 50 * kMiB);
}

TEST(CachingAllocatorLimits, OutOfMemoryNamesTheCpu) {
  FakeBackend backend({.type = DeviceType::cpu, .memory_bytes = kMiB});
  CachingAllocator allocator(backend, 0);
  EXPECT_EQ(out_of_memory(allocator, 2 * kMiB).device, "cpu");
}

TEST(CachingAllocatorLimits, ServesOnAfterOutOfMemory) {
  FakeBackend backend({.memory_bytes = 50 * kMiB});
  CachingAllocator allocator(backend, 0);
  const Allocation held = allocator.allocate(30 * kMiB, kStream);
  out_of_memory(allocator, 30 * kMiB);
  allocator.free(held.block);
  EXPECT_EQ(allocator.allocate(30 * kMiB, kStream).memory, held.memory);
}

TEST(CachingAllocatorLimits, ItsLimitBoundsTheReservedBytes) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0, 30 * kMiB);
  allocator.allocate(20 * kMiB, kStream);
  const OutOfMemory error = out_of_memory(allocator, 11 * kMiB);
  EXPECT_EQ(error.sizes.limit, 30 * kMiB);
  EXPECT_LE(allocator.stats().peak_reserved, 30 * kMiB);
}

TEST(CachingAllocatorLimits, ItsLimitMayBeReached) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0, 20 * kMiB);
  EXPECT_NE(allocator.allocate(20 * kMiB, kStream).memory, nullptr);
}

TEST(CachingAllocatorLimits, ARequestThatIsNotAdmittedEmptiesTheCacheAndFails) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0, 0, &backend);
  allocator.free(allocator.allocate(1000, kStream).block);
  backend.settings.admit = false;
  out_of_memory(allocator, 1000);
  EXPECT_EQ(allocator.stats().retries, 1u);
  EXPECT_EQ(allocator.stats().reserved, 0u);
}

TEST(CachingAllocatorLimits, AsksOnceForEachRequestWhetherItIsAdmitted) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0, 0, &backend);
  allocator.free(allocator.allocate(1000, kStream).block);
  allocator.free(allocator.allocate(1000, kStream).block);
  backend.settings.admit = false;
  out_of_memory(allocator, 1000);
  EXPECT_EQ(backend.counts().admissions, 3);
}

TEST(CachingAllocatorLimits, AFailedRequestIsNotCounted) {
  FakeBackend backend({.memory_bytes = 50 * kMiB});
  CachingAllocator allocator(backend, 0);
  allocator.allocate(30 * kMiB, kStream);
  out_of_memory(allocator, 30 * kMiB);
  const MemoryStats stats = allocator.stats();
  EXPECT_EQ(stats.allocations, 1u);
  EXPECT_EQ(stats.backend_allocations, 1u);
  EXPECT_EQ(stats.in_use, 30 * kMiB);
}

}  // namespace
}  // namespace lockstep
