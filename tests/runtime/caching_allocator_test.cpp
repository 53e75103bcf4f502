// The policy of the caching allocator, on a fake backend.
#include "runtime/memory/caching_allocator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include <lockstep/core/error.h>

#include "runtime/fake_backend.h"

namespace lockstep {
namespace {

using Allocation = CachingAllocator::Allocation;

std::uintptr_t address(const Allocation& allocation) { return reinterpret_cast<std::uintptr_t>(allocation.memory); }

// Reuse

TEST(CachingAllocator, ReusesAFreedBlockOnItsStream) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(1000, kStream);
  allocator.free(first.block);
  EXPECT_EQ(allocator.allocate(1000, kStream).memory, first.memory);
}

TEST(CachingAllocator, DoesNotShareSegmentsBetweenStreams) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  allocator.free(allocator.allocate(1000, kStream).block);
  allocator.allocate(1000, kOther);
  EXPECT_EQ(backend.counts().allocations, 2);
}

TEST(CachingAllocator, ASteadyLoopAllocatesNothingFromTheBackend) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const auto step = [&] {
    std::vector<Allocation> live;
    for (const std::size_t bytes : {4ul, 30ul, 70'000ul, 3 * kMiB + 1, 700 * kMiB, 11 * kMiB + 77, 1'000'000ul}) {
      live.push_back(allocator.allocate(bytes, kStream));
    }
    for (const Allocation& allocation : live) allocator.free(allocation.block);
  };
  step();
  const int after_one_step = backend.counts().allocations;
  for (int i = 0; i < 100; ++i) step();
  EXPECT_EQ(backend.counts().allocations, after_one_step);
}

TEST(CachingAllocator, ServesManySmallRequestsFromOneSegment) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  for (int i = 0; i < 2 * 1024; ++i) allocator.allocate(1024, kStream);
  EXPECT_EQ(backend.counts().allocations, 1);
}

TEST(CachingAllocator, KeepsSmallRequestsOutOfLargeSegments) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  allocator.free(allocator.allocate(2 * kMiB, kStream).block);
  allocator.allocate(512, kStream);
  EXPECT_EQ(backend.held_bytes(), 22 * kMiB);
}

TEST(CachingAllocator, MergesFreedNeighboursInAnyOrder) {
  FakeBackend backend({.memory_bytes = 20 * kMiB});
  CachingAllocator allocator(backend, 0);
  std::vector<int> order = {0, 1, 2, 3, 4};
  do {
    std::vector<Allocation> pieces;
    for (int i = 0; i < 5; ++i) pieces.push_back(allocator.allocate(4 * kMiB, kStream));
    for (const int i : order) allocator.free(pieces[std::size_t(i)].block);
    const Allocation whole = allocator.allocate(20 * kMiB, kStream);
    allocator.free(whole.block);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(backend.counts().allocations, 1);
}

TEST(CachingAllocator, FindsTheOneFreeBlockThatFitsAmongManyThatAlmostDo) {
  FakeBackend backend({.memory_bytes = 200 * kMiB});
  CachingAllocator allocator(backend, 0);
  // All sizes belong to one list of the segregated fit: between 1.9375 and 2 MiB.
  std::vector<Allocation> live;
  for (std::size_t i = 0; i < 60; ++i) {
    const std::size_t bytes = 2 * kMiB - 1024 * (i == 0 ? 1 : 10);
    live.push_back(allocator.allocate(bytes, kStream));
    live.push_back(allocator.allocate(kMiB + 512, kStream));
  }
  const Allocation fitting = live[0];
  for (std::size_t i = 0; i < live.size(); i += 2) allocator.free(live[i].block);
  while (backend.counts().refusals == 0) {  // use up the larger blocks
    try {
      allocator.allocate(2 * kMiB, kStream);
    } catch (const OutOfMemory&) {
    }
  }
  EXPECT_EQ(allocator.allocate(2 * kMiB - 1024, kStream).memory, fitting.memory);
}

TEST(CachingAllocator, AgreesWithAShadowModelAndMergesEverythingBack) {
  FakeBackend backend({.memory_bytes = std::size_t(64) << 30});
  CachingAllocator allocator(backend, 0);
  std::mt19937_64 random(7);
  struct Live {
    Allocation allocation;
    std::size_t bytes;
  };
  std::vector<Live> live;
  std::map<std::uintptr_t, std::size_t> occupied;
  std::size_t asked_bytes = 0;

  for (int i = 0; i < 100'000; ++i) {
    if (live.size() < 400 && (live.empty() || random() % 2 == 0)) {
      const std::size_t bytes = 1 + random() % (std::size_t(1) << (random() % 24));
      const StreamHandle stream = {.device = 0, .id = int(random() % 3)};
      const Live made = {allocator.allocate(bytes, stream), bytes};
      const auto after = occupied.lower_bound(address(made.allocation));
      ASSERT_TRUE(after == occupied.end() || address(made.allocation) + bytes <= after->first) << "overlaps the next";
      if (after != occupied.begin()) {
        const auto before = std::prev(after);
        ASSERT_LE(before->first + before->second, address(made.allocation)) << "overlaps the one before";
      }
      occupied[address(made.allocation)] = bytes;
      asked_bytes += bytes;
      live.push_back(made);
    } else {
      std::swap(live[random() % live.size()], live.back());
      asked_bytes -= live.back().bytes;
      occupied.erase(address(live.back().allocation));
      allocator.free(live.back().allocation.block);
      live.pop_back();
    }
    const MemoryStats stats = allocator.stats();
    ASSERT_GE(stats.in_use, asked_bytes);
    ASSERT_LE(stats.in_use, asked_bytes + 512 * live.size());
    ASSERT_EQ(stats.reserved, backend.held_bytes());
  }
  for (const Live& one : live) allocator.free(one.allocation.block);
  allocator.empty_cache();
  EXPECT_EQ(backend.held_bytes(), 0u);
}

// Sizes and alignment

TEST(CachingAllocator, ZeroBytesAreNoBlock) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation nothing = allocator.allocate(0, kStream);
  EXPECT_EQ(nothing.memory, nullptr);
  EXPECT_EQ(nothing.block, nullptr);
  allocator.free(nothing.block);
  EXPECT_EQ(allocator.stats().frees, 0u);
}

class Alignment : public ::testing::TestWithParam<DeviceType> {};

TEST_P(Alignment, OfEveryBlockIsThatOfItsDevice) {
  FakeBackend backend({.type = GetParam()});
  CachingAllocator allocator(backend, 0);
  const std::size_t alignment = GetParam() == DeviceType::cpu ? 64 : 512;
  for (std::size_t bytes = 1; bytes < 32 * kMiB; bytes = bytes * 3 + 1) {
    EXPECT_EQ(address(allocator.allocate(bytes, kStream)) % alignment, 0u) << bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Alignment, ::testing::Values(DeviceType::cpu, DeviceType::cuda));

TEST(CachingAllocator, CountsSmallCpuBlocksInUnitsOf64Bytes) {
  FakeBackend backend({.type = DeviceType::cpu});
  CachingAllocator allocator(backend, 0);
  allocator.allocate(32, kStream);
  EXPECT_EQ(allocator.stats().in_use, 64u);
}

// Statistics

TEST(CachingAllocator, StatisticsFollowABlock) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation block = allocator.allocate(1000, kStream);
  MemoryStats stats = allocator.stats();
  EXPECT_EQ(stats.in_use, 1024u);
  EXPECT_EQ(stats.reserved, 2 * kMiB);
  EXPECT_EQ(stats.allocations, 1u);
  EXPECT_EQ(stats.backend_allocations, 1u);
  allocator.free(block.block);
  stats = allocator.stats();
  EXPECT_EQ(stats.in_use, 0u);
  EXPECT_EQ(stats.reserved, 2 * kMiB);
  EXPECT_EQ(stats.frees, 1u);
  EXPECT_EQ(stats.backend_frees, 0u);
}

TEST(CachingAllocator, ABlockKeptBackIsNotInUse) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation block = allocator.allocate(1000, kStream);
  allocator.record_stream(block.block, kOther);
  allocator.free(block.block);
  EXPECT_EQ(allocator.stats().in_use, 0u);
}

TEST(CachingAllocator, PeaksStayWhenMemoryIsReturned) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  allocator.free(allocator.allocate(30 * kMiB, kStream).block);
  allocator.empty_cache();
  EXPECT_EQ(allocator.stats().peak_in_use, 30 * kMiB);
  EXPECT_EQ(allocator.stats().peak_reserved, 30 * kMiB);
}

TEST(CachingAllocator, ResettingPeaksSetsThemToTheCurrentValues) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  allocator.free(allocator.allocate(30 * kMiB, kStream).block);
  allocator.empty_cache();
  allocator.allocate(1024, kStream);
  allocator.reset_peaks();
  EXPECT_EQ(allocator.stats().peak_in_use, 1024u);
  EXPECT_EQ(allocator.stats().peak_reserved, 2 * kMiB);
}

// Giving back

TEST(CachingAllocator, EmptyCacheKeepsSegmentsThatArePartlyInUse) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  allocator.allocate(1000, kStream);
  allocator.free(allocator.allocate(1000, kStream).block);
  allocator.free(allocator.allocate(4 * kMiB, kStream).block);
  allocator.empty_cache();
  EXPECT_EQ(backend.held_bytes(), 2 * kMiB);
}

TEST(CachingAllocator, EmptyCacheWaitsForWorkOnOtherStreams) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation block = allocator.allocate(1000, kStream);
  allocator.record_stream(block.block, kOther);
  allocator.free(block.block);
  backend.settings.queries_until_end = 3;
  allocator.empty_cache();
  EXPECT_EQ(backend.held_bytes(), 0u);
}

TEST(CachingAllocator, ItsEndGivesEverythingBack) {
  FakeBackend backend;
  {
    CachingAllocator allocator(backend, 0);
    allocator.allocate(1000, kStream);
    allocator.free(allocator.allocate(5 * kMiB, kOther).block);
  }
  EXPECT_EQ(backend.held_bytes(), 0u);
}

// Threads

TEST(CachingAllocator, ServesManyThreadsThatFreeEachOthersBlocks) {
  FakeBackend backend({.memory_bytes = std::size_t(8) << 30});
  CachingAllocator allocator(backend, 0);
  std::vector<std::atomic<Block*>> shared(64);
  std::vector<std::thread> threads;
  for (int id = 0; id < 8; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random{unsigned(id)};
      const StreamHandle stream = {.device = 0, .id = id % 3};
      for (int i = 0; i < 2000; ++i) {
        const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 3 * kMiB : 5000);
        const Allocation made = allocator.allocate(bytes, stream);
        static_cast<std::byte*>(made.memory)[bytes - 1] = std::byte(id);
        if (random() % 4 == 0) allocator.record_stream(made.block, {.device = 0, .id = int(random() % 3)});
        allocator.free(shared[random() % shared.size()].exchange(made.block));
        if (random() % 4 == 0) backend.finish({.device = 0, .id = int(random() % 3)});
        if (random() % 256 == 0) allocator.stats();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::atomic<Block*>& block : shared) allocator.free(block);
  for (int id = 0; id < 3; ++id) backend.finish({.device = 0, .id = id});
  allocator.empty_cache();
  EXPECT_EQ(backend.held_bytes(), 0u);
}

}  // namespace
}  // namespace lockstep
