// Collectives of the CUDA backend on a fake CUDA and a fake NCCL, compared with those of simulated devices; and their
// failures.
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <future>
#include <string>
#include <thread>

#include <lockstep/core/error.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

#include "backends/cuda/cuda_stream.h"
#include "cuda/fake/fake_cuda.h"
#include "cuda/fake_devices.h"
#include "runtime/graph.h"

namespace lockstep {
namespace {

// Small numbers, exact in any order of summation; 0 or 1 for dtypes of one byte.
template <class T>
Bytes values_of_rank(int rank, std::size_t count) {
  const auto values = std::make_unique<T[]>(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = T((i * 7 + std::size_t(rank) * 5) % (sizeof(T) == 1 ? 2 : 11));
  const auto* const begin = reinterpret_cast<const std::byte*>(values.get());
  return Bytes(begin, begin + count * sizeof(T));
}

// Returns all ranks' memory after each kind of collective, on the current devices of cuda:*.
template <class T>
std::vector<Bytes> after_collectives(int ranks, DType dtype, ReduceOp op) {
  constexpr std::size_t kCount = 12;
  std::vector<Device> devices;
  std::vector<Stream> streams;
  for (int rank = 0; rank < ranks; ++rank) {
    devices.push_back(Device::cuda(rank));
    streams.push_back(Stream::from_pool(devices.back()));
  }
  Communicator communicator(devices);
  std::vector<Bytes> results;
  const auto round = [&](const auto& call) {
    std::vector<std::unique_ptr<DeviceBytes>> send, receive;
    std::vector<RankBuffers> buffers;
    for (int rank = 0; rank < ranks; ++rank) {
      const Stream stream = streams[std::size_t(rank)];
      send.push_back(std::make_unique<DeviceBytes>(rank, values_of_rank<T>(rank, kCount), stream.id()));
      receive.push_back(std::make_unique<DeviceBytes>(rank, Bytes(kCount * sizeof(T)), stream.id()));
      buffers.push_back({stream, send.back()->data(), receive.back()->data()});
    }
    call(buffers);
    if (!machine().earliest_first) std::ranges::reverse(receive);  // starts with the stream that runs first
    for (const auto& memory : receive) results.push_back(memory->get());
  };
  std::vector<std::size_t> even(std::size_t(ranks), kCount / std::size_t(ranks)), uneven(std::size_t(ranks), 0);
  uneven.front() = 5;
  uneven.back() = 7;
  round([&](auto& buffers) { communicator.all_reduce(buffers, kCount, dtype, op); });
  for (int root = 0; root < ranks; ++root) {
    round([&](auto& buffers) { communicator.reduce(buffers, kCount, dtype, root, op); });
    round([&](auto& buffers) { communicator.broadcast(buffers, kCount, dtype, root); });
  }
  for (const auto& counts : {even, uneven}) {
    round([&](auto& buffers) { communicator.reduce_scatter(buffers, counts, dtype, op); });
    round([&](auto& buffers) { communicator.all_gather(buffers, counts, dtype); });
  }
  round([&](auto& buffers) {  // in place
    for (RankBuffers& rank : buffers) rank.send = rank.receive;
    communicator.all_reduce(buffers, kCount, dtype, op);
  });
  round([&](auto& buffers) {  // each rank to the next, the last to the first, and the first to itself
    std::vector<Transfer> transfers;
    for (int from = 0; from < ranks; ++from) {
      const int to = (from + 1) % ranks;
      transfers.push_back({from, to, buffers[std::size_t(from)].send, buffers[std::size_t(to)].receive, 3});
    }
    auto* const own = static_cast<T*>(buffers[0].receive) + 6;
    transfers.push_back({0, 0, buffers[0].send, own, 2});
    communicator.send_receive(streams, transfers, dtype);
  });
  communicator.barrier(streams);
  for (const Stream& stream : streams) stream.synchronize();
  return results;
}

template <class T>
std::vector<Bytes> on_simulated(int ranks, DType dtype, ReduceOp op) {
  const SimulatedDevices devices({.count = ranks});
  return after_collectives<T>(ranks, dtype, op);
}

class FakeCudaRanks : public ::testing::TestWithParam<std::vector<int>> {};

TEST_P(FakeCudaRanks, HoldWhatSimulatedRanksHold) {
  const int ranks = int(GetParam().size());
  const FakeDevices devices({.cards = GetParam()});
  const auto expect_equal = [&]<class T>(T, DType dtype, ReduceOp op) {
    EXPECT_EQ(after_collectives<T>(ranks, dtype, op), on_simulated<T>(ranks, dtype, op)) << dtype;
  };
  for (const bool earliest_first : {false, true}) {
    machine().earliest_first = earliest_first;
    expect_equal(float(), kFloat32, ReduceOp::sum);
    expect_equal(double(), kFloat64, ReduceOp::mean);
    expect_equal(std::int64_t(), kInt64, ReduceOp::max);
    expect_equal(bool(), kBool, ReduceOp::sum);
  }
}
INSTANTIATE_TEST_SUITE_P(Cards, FakeCudaRanks,
                         testing::Values(std::vector{0}, std::vector{0, 1}, std::vector{0, 1, 2}, std::vector{1, 1},
                                         std::vector{0, 0, 0}, std::vector{2, 0, 2}));

TEST(FakeCuda, SharedCardsMustReachTheOthers) {
  const FakeDevices devices({.cards = {0, 0, 1}}, 2, false);
  EXPECT_THROW(Communicator({"cuda:0", "cuda:1", "cuda:2"}), BackendError);
  Communicator({"cuda:0", "cuda:1"});
}

TEST(FakeCuda, AnNcclWithoutWhatIsNeededIsRefusedAndOneOlderThanTheHeadersIsNot) {
  const FakeDevices devices({.cards = {0, 1}});
  machine().nccl_version = 22702;
  try {
    Communicator({"cuda:0", "cuda:1"});
    FAIL() << "no error";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.api, "ncclGetVersion");
    EXPECT_EQ(error.code, 22702);
    EXPECT_NE(std::string(error.what()).find("expected NCCL 2.27.3 or newer"), std::string::npos) << error.what();
  }
  EXPECT_EQ(machine().connections, 0);
  machine().nccl_version = 22703;
  Communicator({"cuda:0", "cuda:1"});
  EXPECT_EQ(machine().connections, 1);
}

// Two cards with an operation that is enqueued and not waited for.
class FakeNccl : public ::testing::Test {
 protected:
  void enqueue() {
    std::vector<RankBuffers> buffers;
    for (int rank = 0; rank < 2; ++rank)
      buffers.push_back({streams[std::size_t(rank)], memory[rank].data(), memory[rank].data()});
    communicator.all_reduce(buffers, 25, kFloat32);
  }
  // Work that takes longer than a wait goes on without checking the other cards.
  static void work_long(int device) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    fake::enqueue(
        gpu::stream_of(card(device).stream(0)).stream.get(), [] {},
        [end] { return std::chrono::steady_clock::now() > end; });
  }
  std::string message_at(int rank) {
    try {
      streams[std::size_t(rank)].synchronize();
    } catch (const CollectiveError& error) {
      EXPECT_EQ(error.operation, "all_reduce");
      EXPECT_EQ(error.bytes, 100u);
      return error.what();
    }
    return "";
  }

  FakeDevices devices{{.cards = {0, 1}}};
  Communicator communicator{std::vector<Device>{"cuda:0", "cuda:1"}};
  std::vector<Stream> streams{Stream::default_stream("cuda:0"), Stream::default_stream("cuda:1")};
  DeviceBytes memory[2] = {{0, Bytes(100)}, {1, Bytes(100)}};
};

TEST_F(FakeNccl, AFailureEndsAllRanksAndIsToldOnceWithItsReason) {
  machine().collectives_fail = true;
  enqueue();
  EXPECT_NE(message_at(1).find("the cable is out"), std::string::npos);
  EXPECT_EQ(machine().aborts, 2);
  EXPECT_EQ(message_at(0), "");
}

TEST_F(FakeNccl, TheOperationAfterAFailureConnectsAgain) {
  machine().collectives_fail = true;
  enqueue();
  EXPECT_NE(message_at(0), "");
  machine().collectives_fail = false;
  const int before = machine().connections;
  enqueue();
  EXPECT_EQ(message_at(0), "");
  EXPECT_EQ(machine().connections, before + 1);
}

TEST_F(FakeNccl, AbortEndsWhatIsPendingOnAllRanks) {
  machine().collectives_hang = true;
  enqueue();
  communicator.abort();
  EXPECT_NE(message_at(1).find("aborted"), std::string::npos);
  EXPECT_EQ(message_at(0), "");
  EXPECT_THROW(enqueue(), CollectiveError);
}

TEST_F(FakeNccl, FreeingMemoryDoesNotHangOnAFailedOperation) {
  machine().collectives_fail = true;
  enqueue();
  card(0).backend.deallocate(0, card(0).backend.allocate(0, 1000), 1000);
  EXPECT_NE(message_at(0), "");
}

// CUDA reports a failed card only to calls about that card. A rank on another card waits for a peer that will not come.
TEST_F(FakeNccl, ACardThatFailsEndsAllRanks) {
  machine().collectives_hang = true;
  enqueue();
  machine().trapped[1] = "a kernel stopped";
  EXPECT_NE(message_at(0).find("a kernel stopped"), std::string::npos);
  EXPECT_EQ(machine().aborts, 2);
  machine().trapped.clear();
}

TEST_F(FakeNccl, AWaitForACardThatFailsEnds) {
  streams[0].wait(streams[1].record());
  machine().trapped[1] = "a kernel stopped";
  try {
    streams[0].synchronize();
    ADD_FAILURE() << "no error";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.device, "cuda:1");
  }
  machine().trapped.clear();
}

// Work without the lost card goes on: waits that begin after the loss was reported, and frees of memory.
TEST_F(FakeNccl, ALostCardIsToldOnceToWaitsForOthers) {
  const auto fill_card = [] { empty({std::int64_t(40) << 20}, {.dtype = kUInt8, .device = "cuda:0"}); };
  fill_card();
  machine().trapped[1] = "a kernel stopped";
  work_long(0);
  empty_cache("cuda:0");  // reports nothing
  EXPECT_NO_THROW(fill_card());
  work_long(0);
  try {
    streams[0].synchronize();
    ADD_FAILURE() << "no error";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.device, "cuda:1");
  }
  work_long(0);
  EXPECT_NO_THROW(streams[0].synchronize());
  EXPECT_THROW(streams[1].synchronize(), BackendError);
  machine().trapped.clear();
}

TEST_F(FakeNccl, ALostCardIsToldToWhoAsksForIt) {
  machine().trapped[1] = "a kernel stopped";
  EXPECT_EQ(cuda::device_count(), 1);
  work_long(0);
  EXPECT_NO_THROW(streams[0].synchronize());
  machine().trapped.clear();
}

// The host polls an event, as the allocator does when memory is short.
TEST_F(FakeNccl, AskingForAnEventDoesNotHangOnAFailedOperation) {
  machine().collectives_fail = true;
  enqueue();
  const cuda::Event after = streams[0].record();
  while (!after.query()) {
  }
  EXPECT_NE(message_at(0), "");
}

TEST_F(FakeNccl, CopiesBehindAFailedOperationDoNotHang) {
  machine().collectives_fail = true;
  enqueue();
  const Bytes values = numbered(std::size_t(20) << 20);  // more than all pinned buffers of a size class
  const DeviceBytes target(0, values.size());
  for (int i = 0; i < 5; ++i)
    target.copy({.to = target.data(), .from = values.data(), .to_device = 0, .row_bytes = values.size()});
  EXPECT_NE(message_at(0), "");
  EXPECT_EQ(target.get(), values);
}

TEST_F(FakeNccl, WhatDoesNotEndInTimeFailsOnAllRanks) {
  communicator = Communicator({"cuda:0", "cuda:1"}, {}, {.time_limit = std::chrono::milliseconds(50)});
  machine().collectives_hang = true;
  enqueue();
  const std::string message = message_at(0);
  EXPECT_NE(message.find("not ended within 50 ms (CommunicatorOptions::time_limit)"), std::string::npos) << message;
  EXPECT_EQ(machine().aborts, 2);
  EXPECT_EQ(message_at(1), "");
  machine().collectives_hang = false;
  enqueue();  // connects again
  EXPECT_EQ(message_at(1), "");
}

TEST_F(FakeNccl, ACapturedStepThatDoesNotEndInTimeFailsOnAllRanks) {
  communicator = Communicator({"cuda:0", "cuda:1"}, {}, {.time_limit = std::chrono::milliseconds(50)});
  GraphCapture capture;
  enqueue();
  Graph graph = capture.end();
  for (int i = 0; i < 3; ++i) graph.launch();
  streams[0].synchronize();
  EXPECT_FALSE(graph.has_failed());
  machine().collectives_hang = true;
  graph.launch();
  try {
    streams[0].synchronize();
    ADD_FAILURE() << "no error";
  } catch (const CollectiveError& error) {
    EXPECT_NE(std::string(error.what()).find("a captured step has not ended within 50 ms"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(machine().aborts, 2);
  EXPECT_TRUE(graph.has_failed());
  machine().collectives_hang = false;
  enqueue();  // connects again
  EXPECT_EQ(message_at(1), "");
  EXPECT_TRUE(graph.has_failed());
}

TEST_F(FakeNccl, AFailureDuringACaptureBreaksItsGraph) {
  GraphCapture capture;
  enqueue();
  communicator.abort();
  EXPECT_TRUE(capture.end().has_failed());
}

TEST_F(FakeNccl, AnEventThatCannotBeMadeIsAnErrorAndTheNextOperationRuns) {
  machine().events = false;
  EXPECT_THROW(enqueue(), Error);
  EXPECT_EQ(message_at(0), "");
  machine().events = true;
  enqueue();
  EXPECT_EQ(message_at(1), "");
}

// The time limit starts when all ranks have reached the operation.
TEST_F(FakeNccl, WhatWaitsForWorkBeforeItIsNotLate) {
  constexpr std::chrono::milliseconds kLimit(50);
  communicator = Communicator({"cuda:0", "cuda:1"}, {}, {.time_limit = kLimit});
  const auto end = std::chrono::steady_clock::now() + 3 * kLimit;
  fake::enqueue(
      gpu::stream_of(card(1).stream(0)).stream.get(), [] {}, [end] { return std::chrono::steady_clock::now() > end; });
  enqueue();
  EXPECT_EQ(message_at(0), "");
  EXPECT_GT(std::chrono::steady_clock::now(), end);
}

TEST_F(FakeNccl, TakesAsManyBlocksAsItMay) {
  EXPECT_EQ(machine().max_ctas, NCCL_CONFIG_UNDEF_INT);
  const Communicator narrow({"cuda:0", "cuda:1"}, {}, {.max_ctas = 8});
  EXPECT_EQ(machine().max_ctas, 8);
}

TEST(FakeCuda, TheSelfTestSaysWhatToTry) {
  const FakeDevices devices({.cards = {0, 1}});
  machine().collectives_fail = true;
  try {
    Communicator({"cuda:0", "cuda:1"});
    FAIL() << "no error";
  } catch (const CollectiveError& error) {
    const std::string message = error.what();
    for (const char* word : {"self-test", "the cable is out", "NCCL_P2P_DISABLE", "ACS", "/dev/shm", "NCCL (22809)"})
      EXPECT_NE(message.find(word), std::string::npos) << word << " in " << message;
  }
}

// A card runs operations in the order of their launches, here only one at a time: if two cards had the operations of
// two communicators in different orders, each would wait for the other.
TEST(FakeCuda, AllCardsRunTheOperationsOfAllThreadsInOneOrder) {
  const FakeDevices devices({.cards = {0, 1, 2}});
  constexpr int kRounds = 12;
  struct User {
    explicit User(std::vector<Device> devices) : communicator(devices, {}, {.time_limit = std::chrono::seconds(2)}) {
      const std::int32_t one = 1;
      const auto* const begin = reinterpret_cast<const std::byte*>(&one);
      for (const Device& device : devices) {
        streams.push_back(Stream::from_pool(device));
        memory.push_back(
            std::make_unique<DeviceBytes>(device.index(), Bytes(begin, begin + sizeof one), streams.back().id()));
        buffers.push_back({streams.back(), memory.back()->data(), memory.back()->data()});
      }
    }
    std::int32_t result(std::size_t rank) const {
      const Bytes bytes = memory[rank]->get();
      return *reinterpret_cast<const std::int32_t*>(bytes.data());
    }
    Communicator communicator;
    std::vector<Stream> streams;
    std::vector<std::unique_ptr<DeviceBytes>> memory;
    std::vector<RankBuffers> buffers;
  };
  std::deque<User> users;
  for (const std::vector<Device>& of : {std::vector<Device>{"cuda:0", "cuda:1", "cuda:2"},
                                        {"cuda:0", "cuda:1"},
                                        {"cuda:1", "cuda:2"},
                                        {"cuda:2", "cuda:0"}})
    users.emplace_back(of);
  machine().collectives_at_once = 1;
  // Between the launches on two cards the other threads go on.
  machine().at_question = [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); };
  std::vector<std::thread> threads;
  for (User& user : users)
    threads.emplace_back([&user] {
      for (int i = 0; i < kRounds; ++i) user.communicator.all_reduce(user.buffers, 1, kInt32);
    });
  for (std::thread& thread : threads) thread.join();
  for (const User& user : users)
    for (std::size_t rank = 0; rank < user.streams.size(); ++rank)
      EXPECT_EQ(user.result(rank), std::int32_t(std::pow(user.streams.size(), kRounds)));
  machine().at_question = nullptr;
}

// CUDA invalidates a capture if one of its streams is asked whether its work has ended. Another thread may ask about a
// stream just when a capture begins: either it gets its answer before, or it does not ask.
class FakeQuestions : public ::testing::TestWithParam<const char*> {};

TEST_P(FakeQuestions, DoNotBreakACaptureThatBeginsMeanwhile) {
  const FakeDevices devices({.cards = {0, 1}});
  const Stream stream = Stream::default_stream("cuda:0");
  stream.synchronize();
  void* const memory = card(0).backend.allocate(0, 1000);
  std::promise<void> asked, may_end;
  std::atomic<bool> was_asked = false, has_begun = false;
  machine().at_question = [&] {
    if (was_asked.exchange(true)) return;
    asked.set_value();
    for (int ms = 0; ms < 100 && !has_begun; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  std::thread captures([&] {
    asked.get_future().wait();
    const GraphCapture capture;
    has_begun = true;
    may_end.get_future().wait();
  });
  const std::string question = GetParam();
  try {
    if (question == "is_lost") card(0).backend.is_lost(0);
    if (question == "query_stream") stream.query();
    if (question == "synchronize_stream") stream.synchronize();
    if (question == "deallocate") card(0).backend.deallocate(0, memory, 1000);
  } catch (const InvalidArgument&) {  // the capture has begun before the second question
  }
  machine().at_question = nullptr;
  may_end.set_value();
  captures.join();
  if (question != "deallocate") card(0).backend.deallocate(0, memory, 1000);
}
INSTANTIATE_TEST_SUITE_P(All, FakeQuestions,
                         ::testing::Values("is_lost", "query_stream", "synchronize_stream", "deallocate"));

}  // namespace
}  // namespace lockstep
