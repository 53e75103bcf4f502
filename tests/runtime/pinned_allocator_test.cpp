// When page-locked memory is reused: on a fake backend.
#include "runtime/memory/pinned_allocator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <set>

#include <lockstep/core/error.h>

#include "runtime/fake_backend.h"

namespace lockstep {
namespace {

class PinnedBlocks : public ::testing::Test {
 protected:
  ~PinnedBlocks() override {  // the allocator waits for all copies
    for (const StreamHandle& stream : {kStream, kOther}) backend.finish(stream);
  }

  PinnedBlock& allocate(std::size_t bytes = 5000) { return allocator.allocate(bytes); }
  void copy(PinnedBlock& block, StreamHandle stream) { allocator.copy(stream, {.from = block.memory}, block); }
  /// Returns the memory of the next `count` allocations.
  std::set<void*> next(int count) {
    std::set<void*> all;
    for (int i = 0; i < count; ++i) all.insert(allocate().memory);
    return all;
  }

  FakeBackend backend;
  PinnedAllocator allocator{backend, &backend};
};

TEST_F(PinnedBlocks, AreHandedOutAgainAtOnceWhereNothingReadsThem) {
  PinnedBlock& block = allocate();
  EXPECT_GE(block.bytes, 5000u);
  allocator.free(block);
  EXPECT_EQ(&allocate(), &block);
  EXPECT_EQ(backend.counts().allocations, 1);
}

TEST_F(PinnedBlocks, AreKeptBackWhileACopyReadsThem) {
  PinnedBlock& block = allocate();
  copy(block, kStream);
  allocator.free(block);
  EXPECT_NE(&allocate(), &block);
  backend.finish(kStream);
  EXPECT_EQ(&allocate(), &block);
}

TEST_F(PinnedBlocks, AreKeptBackForTheLastCopyOfEachStream) {
  PinnedBlock& block = allocate();
  copy(block, kStream);
  copy(block, kOther);
  backend.finish(kStream);
  copy(block, kStream);
  allocator.free(block);
  backend.finish(kOther);
  EXPECT_NE(&allocate(), &block);
  backend.finish(kStream);
  EXPECT_EQ(&allocate(), &block);
  EXPECT_EQ(backend.counts().events, 2);
}

TEST_F(PinnedBlocks, TellApartStreamsOfOneNumberOnTwoDevices) {
  PinnedBlock& block = allocate();
  copy(block, kStream);
  copy(block, {.device = 1, .id = 0});
  EXPECT_EQ(backend.counts().events, 2);
}

TEST_F(PinnedBlocks, BehindOneThatIsReadAreFound) {
  PinnedBlock &first = allocate(), &second = allocate();
  allocator.free(first);
  copy(second, kStream);
  allocator.free(second);
  EXPECT_EQ(&allocate(), &first);
}

TEST_F(PinnedBlocks, OfOtherSizesAreNotTaken) {
  PinnedBlock& block = allocate(5000);
  allocator.free(block);
  EXPECT_NE(&allocate(50000), &block);
  EXPECT_NE(&allocate(1), &block);
  EXPECT_EQ(&allocate(8192), &block);
}

TEST_F(PinnedBlocks, AreNeverHandedOutAgainAfterACopyThatNoEventMarks) {
  for (int* const failing : {&backend.settings.failing_records, &backend.settings.failing_copies}) {
    PinnedBlock& block = allocate();
    *failing = 1;
    EXPECT_THROW(copy(block, kStream), BackendError);
    backend.finish(kStream);
    allocator.free(block);
    EXPECT_FALSE(next(3).contains(block.memory));
  }
}

TEST_F(PinnedBlocks, AreNotCopiedFromWithoutAnEventToMarkIt) {
  PinnedBlock& block = allocate();
  backend.settings.failing_events = 1;
  EXPECT_THROW(copy(block, kStream), BackendError);
  EXPECT_EQ(backend.counts().copies, 0);
  allocator.free(block);
  EXPECT_EQ(&allocate(), &block);
}

TEST_F(PinnedBlocks, AreAskedForAgainWhereThatFailedOnce) {
  PinnedBlock& block = allocate();
  copy(block, kStream);
  allocator.free(block);
  backend.finish(kStream);
  backend.settings.failing_queries = 1;
  EXPECT_NE(&allocate(), &block);
  EXPECT_EQ(&allocate(), &block);
}

TEST_F(PinnedBlocks, AreWaitedForOnce) {
  PinnedBlock& block = allocate();
  allocator.wait(block);
  EXPECT_EQ(backend.counts().waits, 0);
  copy(block, kStream);
  copy(block, kOther);
  allocator.wait(block);
  allocator.wait(block);
  EXPECT_EQ(backend.counts().waits, 2);
}

TEST_F(PinnedBlocks, ThatAreFreeAreGivenBackWhereThereIsNoRoom) {
  backend.settings.pinned_bytes = 3 * 8192;
  PinnedBlock &read = allocate(), &idle = allocate();
  copy(read, kStream);
  allocator.free(read);
  allocator.free(idle);
  allocate(10000);
  EXPECT_EQ(backend.counts().deallocations, 1);
  try {
    allocate(10000);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.device, "cpu");
    EXPECT_EQ(error.sizes.requested, 10000u);
    EXPECT_EQ(error.sizes.in_use, 16384u);
    EXPECT_EQ(error.sizes.cached, 8192u);
  }
  EXPECT_THROW(allocate(std::numeric_limits<std::size_t>::max()), OutOfMemory);
  EXPECT_EQ(allocator.in_use(), 16384u);
}

TEST_F(PinnedBlocks, AreGivenBackAtTheEndWhenTheirCopiesHaveEnded) {
  {
    PinnedAllocator other(backend, &backend);
    PinnedBlock& block = other.allocate(1);
    other.copy(kStream, {.from = block.memory}, block);
    backend.settings.queries_until_end = 3;
  }
  EXPECT_EQ(backend.settings.queries_until_end, 0);
  EXPECT_EQ(backend.counts().deallocations, 1);
  EXPECT_EQ(backend.counts().events, 0);
  EXPECT_EQ(backend.counts().looks, 2);
}

}  // namespace
}  // namespace lockstep
