// Blocks that are used on other streams than their own, and the discarding of contents: on a fake backend.
#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <vector>

#include <lockstep/core/error.h>

#include "runtime/fake_backend.h"
#include "runtime/memory/caching_allocator.h"

namespace lockstep {
namespace {

using Allocation = CachingAllocator::Allocation;

class BlocksOnStreams : public ::testing::Test {
 protected:
  void* memory() { return allocator.allocate(1000, kStream).memory; }
  /// A freed block of kStream that was also used on these streams.
  void* freed_after_use_on(std::initializer_list<StreamHandle> others) {
    const Allocation block = allocator.allocate(1000, kStream);
    for (const StreamHandle& other : others) allocator.record_stream(block.block, other);
    allocator.free(block.block);
    return block.memory;
  }

  FakeBackend backend;
  CachingAllocator allocator{backend, 0, 0, &backend};
};

TEST_F(BlocksOnStreams, KeepsABlockBackWhileAnotherStreamUsesIt) {
  void* const first = freed_after_use_on({kOther});
  EXPECT_NE(memory(), first);
}

TEST_F(BlocksOnStreams, ReusesABlockWhenItsOtherStreamIsDone) {
  void* const first = freed_after_use_on({kOther});
  backend.finish(kOther);
  EXPECT_EQ(memory(), first);
}

TEST_F(BlocksOnStreams, WaitsForAllOtherStreamsOfABlock) {
  void* const first = freed_after_use_on({kOther, kThird});
  backend.finish(kThird);
  EXPECT_NE(memory(), first);
  backend.finish(kOther);
  EXPECT_EQ(memory(), first);
}

TEST_F(BlocksOnStreams, WaitsForTheStreamThatCameToABlockLast) {
  void* const first = freed_after_use_on({kOther, kThird});
  backend.finish(kOther);
  EXPECT_NE(memory(), first);
  backend.finish(kThird);
  EXPECT_EQ(memory(), first);
}

TEST_F(BlocksOnStreams, TellsApartStreamsOfOneNumberOnTwoDevices) {
  freed_after_use_on({{.device = 1, .id = kStream.id}});
  EXPECT_EQ(backend.counts().records, 1);
}

TEST_F(BlocksOnStreams, TellsApartOtherStreamsOfOneNumberOnTwoDevices) {
  freed_after_use_on({kOther, {.device = 1, .id = kOther.id}});
  EXPECT_EQ(backend.counts().records, 2);
}

TEST_F(BlocksOnStreams, RecordsEachOtherStreamOnce) {
  freed_after_use_on({kStream, kOther, kOther, kStream, kOther});
  EXPECT_EQ(backend.counts().records, 1);
}

TEST_F(BlocksOnStreams, ForgetsTheOtherStreamsOfABlockOnceItIsReused) {
  freed_after_use_on({kOther});
  backend.finish(kOther);
  freed_after_use_on({});
  EXPECT_EQ(backend.counts().records, 1);
}

TEST_F(BlocksOnStreams, ReusesEvents) {
  for (int i = 0; i < 10; ++i) {
    freed_after_use_on({kOther});
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

TEST_F(BlocksOnStreams, ABlockIsUnchangedWhenItsUseCouldNotBeNoted) {
  backend.settings.failing_events = 1;
  const Allocation first = allocator.allocate(1000, kStream);
  EXPECT_THROW(allocator.record_stream(first.block, kOther), BackendError);
  allocator.free(first.block);
  EXPECT_EQ(memory(), first.memory);
}

TEST_F(BlocksOnStreams, KeepsABlockBackWhoseEventCouldNotBeRecorded) {
  backend.settings.failing_records = 2;
  void* const first = freed_after_use_on({kOther});
  EXPECT_NE(memory(), first);  // the second record fails
  EXPECT_NE(memory(), first);  // the third does not
  backend.finish(kOther);
  EXPECT_EQ(memory(), first);
}

TEST_F(BlocksOnStreams, AsksAgainAboutAnEventThatCouldNotBeAsked) {
  backend.settings.failing_queries = 1;
  void* const first = freed_after_use_on({kOther});
  backend.finish(kOther);
  EXPECT_NE(memory(), first);
  EXPECT_EQ(memory(), first);
}

TEST_F(BlocksOnStreams, EmptyCacheGivesUpOnWorkThatCannotBeAsked) {
  backend.settings.failing_queries = std::numeric_limits<int>::max();
  freed_after_use_on({kOther});
  allocator.empty_cache();
  EXPECT_EQ(allocator.stats().reserved, 2 * kMiB);
}

TEST_F(BlocksOnStreams, DiscardsABlockWhenItIsHandedOutAndWhenItIsReturned) {
  const Allocation block = allocator.allocate(1000, kThird);
  allocator.free(block.block);
  const FakeBackend::Discard expected = {kThird.id, block.memory, 1024};
  EXPECT_EQ(backend.discards(), (std::vector{expected, expected}));
}

TEST_F(BlocksOnStreams, DiscardsABlockUsedElsewhereOnItsOwnStreamOnceThatWorkEnded) {
  void* const block = freed_after_use_on({kOther});
  EXPECT_EQ(backend.discards().size(), 1u);
  backend.finish(kOther);
  allocator.empty_cache();
  EXPECT_EQ(backend.discards().back(), (FakeBackend::Discard{kStream.id, block, 1024}));
}

TEST(CachingAllocator, WithoutHooksAsksTheBackendAloneAboutEvents) {
  FakeBackend backend;
  CachingAllocator allocator(backend, 0);
  const Allocation block = allocator.allocate(1000, kStream);
  allocator.record_stream(block.block, kOther);
  allocator.free(block.block);
  backend.finish(kOther);
  EXPECT_EQ(allocator.allocate(1000, kStream).memory, block.memory);
  EXPECT_EQ(backend.counts().queries, 1);
  EXPECT_EQ(backend.counts().admissions, 0);
  EXPECT_TRUE(backend.discards().empty());
}

}  // namespace
}  // namespace lockstep
