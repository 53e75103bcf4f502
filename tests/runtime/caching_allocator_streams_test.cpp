// Blocks that streams other than their own use, and when contents are discarded: on a fake backend.
#include <gtest/gtest.h>

#include <vector>

#include <lockstep/core/error.h>

#include "runtime/caching_allocator.h"
#include "runtime/fake_backend.h"

namespace lockstep {
namespace {

using Allocation = CachingAllocator::Allocation;

TEST(CachingAllocator, KeepsABlockBackWhileAnotherStreamUsesIt) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(1000, kStream);
  allocator.record_stream(first.block, kOther);
  allocator.free(first.block);
  EXPECT_NE(allocator.allocate(1000, kStream).memory, first.memory);
}

TEST(CachingAllocator, ReusesABlockWhenItsOtherStreamIsDone) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(1000, kStream);
  allocator.record_stream(first.block, kOther);
  allocator.free(first.block);
  backend.finish(kOther);
  EXPECT_EQ(allocator.allocate(1000, kStream).memory, first.memory);
}

TEST(CachingAllocator, WaitsForAllOtherStreamsOfABlock) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(1000, kStream);
  allocator.record_stream(first.block, kOther);
  allocator.record_stream(first.block, kThird);
  allocator.free(first.block);
  backend.finish(kThird);
  EXPECT_NE(allocator.allocate(1000, kStream).memory, first.memory);
  backend.finish(kOther);
  EXPECT_EQ(allocator.allocate(1000, kStream).memory, first.memory);
}

TEST(CachingAllocator, TellsApartStreamsOfOneNumberOnTwoDevices) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(1000, kStream);
  allocator.record_stream(first.block, {.device = 1, .id = kStream.id});
  allocator.free(first.block);
  EXPECT_EQ(backend.counts().records, 1);
}

TEST(CachingAllocator, RecordsEachOtherStreamOnce) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(1000, kStream);
  for (int i = 0; i < 3; ++i) {
    allocator.record_stream(first.block, kStream);
    allocator.record_stream(first.block, kOther);
  }
  allocator.free(first.block);
  EXPECT_EQ(backend.counts().records, 1);
}

TEST(CachingAllocator, ForgetsTheOtherStreamsOfABlockOnceItIsReused) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(1000, kStream);
  allocator.record_stream(first.block, kOther);
  allocator.free(first.block);
  backend.finish(kOther);
  const Allocation second = allocator.allocate(1000, kStream);
  allocator.free(second.block);
  EXPECT_EQ(backend.counts().records, 1);
}

TEST(CachingAllocator, ReusesEvents) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  for (int i = 0; i < 10; ++i) {
    const Allocation block = allocator.allocate(1000, kStream);
    allocator.record_stream(block.block, kOther);
    allocator.free(block.block);
    backend.finish(kOther);
  }
  EXPECT_EQ(backend.counts().events, 1);
}

TEST(CachingAllocator, DestroysItsEvents) {
  FakeBackend backend;
  {
    CachingAllocator allocator(backend, 0);
    const Allocation block = allocator.allocate(1000, kStream);
    allocator.record_stream(block.block, kOther);
    allocator.free(block.block);
  }
  EXPECT_EQ(backend.counts().events, 0);
}

TEST(CachingAllocator, ABlockIsUnchangedWhenItsUseCouldNotBeNoted) {
  FakeBackend backend({.failing_events = 1});
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(1000, kStream);
  EXPECT_THROW(allocator.record_stream(first.block, kOther), BackendError);
  allocator.free(first.block);
  EXPECT_EQ(allocator.allocate(1000, kStream).memory, first.memory);
}

TEST(CachingAllocator, KeepsABlockBackWhoseEventCouldNotBeRecorded) {
  FakeBackend backend({.failing_records = 2});
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(1000, kStream);
  allocator.record_stream(first.block, kOther);
  allocator.free(first.block);
  EXPECT_NE(allocator.allocate(1000, kStream).memory, first.memory);  // the second record fails
  EXPECT_NE(allocator.allocate(1000, kStream).memory, first.memory);  // the third does not
  backend.finish(kOther);
  EXPECT_EQ(allocator.allocate(1000, kStream).memory, first.memory);
}

TEST(CachingAllocator, AsksAgainAboutAnEventThatCouldNotBeAsked) {
  FakeBackend backend({.failing_queries = 1});
  CachingAllocator allocator(backend, 0);
  const Allocation first = allocator.allocate(1000, kStream);
  allocator.record_stream(first.block, kOther);
  allocator.free(first.block);
  backend.finish(kOther);
  EXPECT_NE(allocator.allocate(1000, kStream).memory, first.memory);
  EXPECT_EQ(allocator.allocate(1000, kStream).memory, first.memory);
}

TEST(CachingAllocator, EmptyCacheGivesUpOnWorkThatCannotBeAsked) {
  FakeBackend backend({.failing_queries = std::numeric_limits<int>::max()});
  CachingAllocator allocator(backend, 0);
  const Allocation block = allocator.allocate(1000, kStream);
  allocator.record_stream(block.block, kOther);
  allocator.free(block.block);
  allocator.empty_cache();
  EXPECT_EQ(allocator.stats().reserved, 2 * kMiB);
}

TEST(CachingAllocator, DiscardsABlockWhenItIsHandedOutAndWhenItIsReturned) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation block = allocator.allocate(1000, kThird);
  allocator.free(block.block);
  const FakeBackend::Discard expected = {kThird.id, block.memory, 1024};
  EXPECT_EQ(backend.discards(), (std::vector{expected, expected}));
}

TEST(CachingAllocator, DiscardsABlockUsedElsewhereOnItsOwnStreamOnceThatWorkEnded) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation block = allocator.allocate(1000, kStream);
  allocator.record_stream(block.block, kOther);
  allocator.free(block.block);
  EXPECT_EQ(backend.discards().size(), 1u);
  backend.finish(kOther);
  allocator.empty_cache();
  EXPECT_EQ(backend.discards().back(), (FakeBackend::Discard{kStream.id, block.memory, 1024}));
}

TEST(CachingAllocator, DiscardsNothingOnTheCpu) {
  FakeBackend backend({.type = DeviceType::kCpu});
  CachingAllocator allocator(backend, 0);
  allocator.free(allocator.allocate(1000, kStream).block);
  EXPECT_TRUE(backend.discards().empty());
}

}  // namespace
}  // namespace lockstep
