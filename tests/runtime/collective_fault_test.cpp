// Collectives with a failure on one rank: all ranks get a typed error, no rank waits forever, and the next collective
// is right.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include <lockstep/runtime/memory.h>

#include "runtime/ranks.h"

namespace lockstep::testing {
namespace {

using Floats = std::vector<float>;

// An all-reduce of floats on N devices with delays and a known result.
class CollectiveFault : public ::testing::TestWithParam<int> {
 protected:
  static constexpr std::size_t kCount = 40'000;

  explicit CollectiveFault() : ranks_(GetParam(), {.seed = 3, .max_delay_us = 100}) {
    for (int rank = 0; rank < size(); ++rank) memory_.push_back(ranks_.allocate(rank, kCount * sizeof(float)));
  }
  int size() const { return ranks_.size(); }
  FaultInjector& fault() { return ranks_.devices.fault(); }

  void all_reduce() {
    for (int rank = 0; rank < size(); ++rank)
      ranks_.write(rank, memory_[std::size_t(rank)], bytes_of(Floats(kCount, float(rank + 1))));
    ranks_.communicator.all_reduce(ranks_.buffers(memory_, memory_), kCount, kFloat32);
  }
  void expect_right() {
    all_reduce();
    const auto sum = float(size() * (size() + 1) / 2);
    for (int rank = 0; rank < size(); ++rank)
      EXPECT_EQ(ranks_.values<float>(rank, memory_[std::size_t(rank)], kCount), Floats(kCount, sum));
  }

  // Synchronizes `first`, which must throw a CollectiveError, and then the other streams, which its error has cleared.
  void expect_collective_error(const Stream& first, int rank, const std::string& part) {
    const auto start = std::chrono::steady_clock::now();
    try {
      first.synchronize();
      ADD_FAILURE() << "no error";
    } catch (const CollectiveError& error) {
      EXPECT_EQ(error.rank, rank);
      EXPECT_EQ(error.operation, "all_reduce");
      EXPECT_EQ(error.bytes, kCount * sizeof(float));
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      attached_ = error.attached();
    }
    ranks_.synchronize();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  }

  Ranks ranks_;
  std::vector<void*> memory_;
  std::vector<std::exception_ptr> attached_;
};

INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveFault, ::testing::Values(1, 2, 3, 5));

TEST_P(CollectiveFault, AnInjectedFaultOnAnyRankIsToldOnEveryRanksStream) {
  for (int failing = 0; failing < size(); ++failing)
    for (int told = 0; told < size(); ++told) {
      SCOPED_TRACE("rank " + std::to_string(failing) + ", told on rank " + std::to_string(told));
      fault().fail_collective({.device = failing, .nth = 2});
      expect_right();
      all_reduce();
      expect_collective_error(ranks_.streams[std::size_t(told)], failing,
                              "an injected fault on cuda:" + std::to_string(failing));
      ASSERT_EQ(attached_.size(), 1u);
      EXPECT_THROW(std::rethrow_exception(attached_[0]), BackendError);
      expect_right();
    }
}

TEST_P(CollectiveFault, ALostDeviceFailsCollectivesUntilItIsBack) {
  const int lost = size() - 1;
  for (int rank = 0; rank < size(); ++rank) ranks_.write(rank, memory_[std::size_t(rank)], bytes_of(Floats(kCount, 1)));
  ranks_.synchronize();
  fault().lose_device({.device = lost});
  for (int i = 0; i < 2; ++i) {
    ranks_.communicator.all_reduce(ranks_.buffers(memory_, memory_), kCount, kFloat32);
    expect_collective_error(ranks_.streams[0], lost, "the device is lost on cuda:" + std::to_string(lost));
  }
  fault().clear();
  expect_right();
}

TEST_P(CollectiveFault, AnErrorOfOneRanksStreamFailsTheOperationOnAll) {
  const int failing = size() - 1;
  if (failing == 0) return;  // there is no other rank
  fault().fail_launch({.device = failing});
  ranks_.launch(failing, "backward", {}, [] {});
  ranks_.communicator.all_reduce(ranks_.buffers(memory_, memory_), kCount, kFloat32);
  expect_collective_error(ranks_.streams[0], failing,
                          "cuda:" + std::to_string(failing) + " had failed before: [backward] failed");
  ASSERT_EQ(attached_.size(), 1u);
  EXPECT_EQ(message_of<BackendError>([&] { std::rethrow_exception(attached_[0]); }),
            "[backward] failed on cuda:" + std::to_string(failing) + " with code 719: an injected fault");
  expect_right();
}

TEST_P(CollectiveFault, AnErrorIsToldAsItsOwnTypeOnItsOwnStream) {
  const int failing = size() - 1;
  fault().fail_launch({.device = failing});
  ranks_.launch(failing, "backward", {}, [] {});
  ranks_.communicator.all_reduce(ranks_.buffers(memory_, memory_), kCount, kFloat32);
  EXPECT_THROW(ranks_.streams.back().synchronize(), BackendError);
  ranks_.synchronize();  // their error was reported with the first one
  expect_right();
}

TEST_P(CollectiveFault, WhatFollowsAFailedCollectiveIsSkippedOnAllRanks) {
  std::atomic<int> ran = 0;
  fault().fail_collective({.device = 0});
  all_reduce();
  for (int rank = 0; rank < size(); ++rank) ranks_.launch(rank, "step", {}, [&ran] { ++ran; });
  ranks_.communicator.all_reduce(ranks_.buffers(memory_, memory_), kCount, kFloat32);
  expect_collective_error(ranks_.streams.back(), 0, "an injected fault");
  EXPECT_EQ(ran, 0);
  expect_right();
}

TEST_P(CollectiveFault, MemoryComesBack) {
  std::vector<std::size_t> before;
  for (int rank = 0; rank < size(); ++rank) before.push_back(memory_stats(Device::cuda(rank)).in_use);
  {
    std::vector<CachingAllocator::Allocation> blocks;
    std::vector<void*> memory;
    for (int rank = 0; rank < size(); ++rank) {
      blocks.push_back(ranks_.state(rank).allocator.allocate(kCount * sizeof(float), ranks_.handle(rank)));
      memory.push_back(blocks.back().memory);
    }
    fault().fail_collective({.device = size() - 1});
    ranks_.communicator.all_reduce(ranks_.buffers(memory, memory), kCount, kFloat32);
    for (int rank = 0; rank < size(); ++rank) ranks_.state(rank).allocator.free(blocks[std::size_t(rank)].block);
  }
  expect_collective_error(ranks_.streams[0], size() - 1, "an injected fault");
  for (int rank = 0; rank < size(); ++rank)
    EXPECT_EQ(memory_stats(Device::cuda(rank)).in_use, before[std::size_t(rank)]);
  expect_right();
}

TEST_P(CollectiveFault, CollectivesAreCountedForEachRank) {
  expect_right();
  ranks_.communicator.barrier(ranks_.streams);
  for (int rank = 0; rank < size(); ++rank) EXPECT_EQ(ranks_.devices.counts(rank).collectives, 2u);
}

// Every operation of a few rounds fails once on each device, with each kind of fault.
TEST_P(CollectiveFault, EveryOperationMayFailAndTheNextRoundIsRight) {
  const auto round = [&] {
    expect_right();
    ranks_.communicator.barrier(ranks_.streams);
    ranks_.communicator.broadcast(ranks_.buffers(memory_, memory_), kCount, kFloat32, size() - 1);
    ranks_.synchronize();
  };
  for (int device = 0; device < size(); ++device)
    for (std::uint64_t nth = 1; nth <= 3; ++nth) {
      fault().fail_collective({.device = device, .nth = nth});
      EXPECT_THROW(round(), CollectiveError);
      fault().clear();
      round();
    }
}

// Two ranks may have a core each, and then poll while they wait; three mostly sleep.
class CollectiveAbort : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveAbort, ::testing::Values(2, 3));

TEST_P(CollectiveAbort, EndsWhatIsPendingOnAllRanksAtOnce) {
  const auto count = std::size_t(GetParam());
  Ranks ranks(GetParam());
  const auto memory = ranks.put_all(std::vector<Bytes>(count, bytes_of<float>({1})));
  std::promise<void> gate;
  ranks.launch(1, "block", {}, [opened = gate.get_future().share()] { opened.wait(); });
  ranks.communicator.all_reduce(ranks.buffers(memory, memory), 1, kFloat32);
  const cuda::Event after = ranks.streams[0].record();
  EXPECT_FALSE(after.query());
  ranks.communicator.abort();
  while (!after.query()) std::this_thread::yield();  // although rank 1 is still blocked
  gate.set_value();
  const std::string message = message_of<CollectiveError>([&] { ranks.streams.back().synchronize(); });
  EXPECT_NE(message.find("with 4 bytes: the communicator was aborted before this rank called it"), std::string::npos)
      << message;
  ranks.synchronize();
  EXPECT_TRUE(ranks.communicator.is_aborted());
  EXPECT_THROW(ranks.communicator.barrier(ranks.streams), CollectiveError);

  Communicator next(gpus(GetParam()));
  next.all_reduce(ranks.buffers(memory, memory), 1, kFloat32);
  EXPECT_EQ(ranks.values<float>(0, memory[0], 1), Floats{float(count)});
}

TEST_P(CollectiveAbort, MayComeFromAnyThreadAtAnyTime) {
  constexpr std::size_t kCount = 1 << 20;
  for (unsigned seed = 0; seed < 20; ++seed) {
    Ranks ranks(GetParam(), {.seed = seed, .max_delay_us = 200});
    const auto memory = ranks.put_all(std::vector<Bytes>(std::size_t(GetParam()), bytes_of(Floats(kCount, 1))));
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(150 * seed));
      ranks.communicator.abort();
    });
    try {
      for (int i = 0; i < 10; ++i) ranks.communicator.all_reduce(ranks.buffers(memory, memory), kCount, kFloat32);
      ranks.synchronize();
    } catch (const CollectiveError&) {
    }
    other.join();
    EXPECT_THROW(ranks.communicator.barrier(ranks.streams), CollectiveError);
    for (const Stream& stream : ranks.streams) try {
        stream.synchronize();
      } catch (const CollectiveError&) {
      }
  }
}

TEST_P(CollectiveAbort, OfNothingIsQuiet) {
  Ranks ranks(GetParam());
  ranks.communicator.barrier(ranks.streams);
  ranks.synchronize();
  ranks.communicator.abort();
  ranks.communicator.abort();
  ranks.synchronize();
}

TEST(CommunicatorLifetime, EndsBeforeThatOfItsPendingWork) {
  Ranks ranks(2);
  const auto memory = ranks.put_all({bytes_of<float>({1}), bytes_of<float>({2})});
  std::promise<void> gate;
  ranks.launch(1, "block", {}, [opened = gate.get_future().share()] { opened.wait(); });
  Communicator(gpus(2)).all_reduce(ranks.buffers(memory, memory), 1, kFloat32);
  gate.set_value();
  EXPECT_EQ(ranks.values<float>(1, memory[1], 1), Floats{3});
}

}  // namespace
}  // namespace lockstep::testing
