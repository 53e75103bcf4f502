// The order of collectives among other work, the race checker's view of it, and misuse of a communicator.
#include <array>
#include <atomic>
#include <future>
#include <optional>
#include <random>
#include <thread>

#include "runtime/ranks.h"

namespace lockstep::testing {
namespace {

TEST(Communicator, TheCallReturnsBeforeTheWorkIsDone) {
  Ranks ranks(2);
  const auto memory = ranks.put_all({bytes_of<float>({1}), bytes_of<float>({2})});
  std::promise<void> gate;
  ranks.launch(1, "block", {}, [opened = gate.get_future().share()] { opened.wait(); });
  ranks.communicator.all_reduce(ranks.buffers(memory, memory), 1, kFloat32);
  EXPECT_FALSE(ranks.streams[0].query());  // waits for rank 1
  gate.set_value();
  EXPECT_EQ(ranks.values<float>(0, memory[0], 1), std::vector<float>{3});
}

TEST(Communicator, ABarrierOrdersWhatComesAfterItOnAnyRankAfterWhatCameBeforeItOnAll) {
  Ranks ranks(3, {.seed = 1, .max_delay_us = 100});
  auto* const x = static_cast<float*>(ranks.put(0, bytes_of<float>({1})));
  ranks.launch(0, "write", {{{x, 4}, AccessKind::write}}, [x] { *x = 2; });
  void* const copy = ranks.allocate(2, 4);
  ranks.communicator.barrier(ranks.streams);
  ranks.state(2).backend.copy(ranks.handle(2), {copy, x, 2, 0, 4, 1, 4, 4});  // a RaceError without the barrier
  EXPECT_EQ(ranks.values<float>(2, copy, 1), std::vector<float>{2});
}

TEST(Communicator, MemoryThatAnotherStreamWritesIsARaceUnlessAnEventOrdersIt) {
  for (const bool ordered : {false, true}) {
    Ranks ranks(2);
    const auto memory = ranks.put_all({bytes_of<float>({1}), bytes_of<float>({2})});
    ranks.synchronize();
    const Stream compute = Stream::from_pool(Device::cuda(1));
    const MemoryAccess write = {{memory[1], 4}, AccessKind::write};
    ranks.state(1).backend.launch(StreamAccess::handle(compute), {"backward", 0, {&write, 1}},
                                  [x = static_cast<float*>(memory[1])](const KernelContext&) { *x = 5; });
    if (ordered) ranks.streams[1].wait(compute.record());
    const auto reduce = [&] { ranks.communicator.all_reduce(ranks.buffers(memory, memory), 1, kFloat32); };
    const std::string message = message_of<RaceError>(reduce);
    if (ordered) {
      EXPECT_EQ(message, "no error");
      EXPECT_EQ(ranks.values<float>(0, memory[0], 1), std::vector<float>{6});
    } else {
      EXPECT_NE(message.find("'all_reduce' reads 4 bytes"), std::string::npos) << message;
      EXPECT_NE(message.find("unordered with 'backward' that wrote them on cuda:1"), std::string::npos) << message;
    }
  }
}

TEST(Communicator, ADroppedWaitForTheProducerIsARace) {
  Ranks ranks(2);
  const auto memory = ranks.put_all({bytes_of<float>({1}), bytes_of<float>({2})});
  ranks.synchronize();
  const Stream compute = Stream::from_pool(Device::cuda(0));
  const MemoryAccess write = {{memory[0], 4}, AccessKind::write};
  ranks.state(0).backend.launch(StreamAccess::handle(compute), {"backward", 0, {&write, 1}},
                                [](const KernelContext&) {});
  ranks.devices.fault().drop_wait({.device = 0});
  ranks.streams[0].wait(compute.record());
  EXPECT_THROW(ranks.communicator.all_reduce(ranks.buffers(memory, memory), 1, kFloat32), RaceError);
}

TEST(Communicator, AResultUsedOnAnotherStreamIsARaceUnlessAnEventOrdersIt) {
  for (const bool ordered : {false, true}) {
    Ranks ranks(2);
    const auto memory = ranks.put_all({bytes_of<float>({1}), bytes_of<float>({2})});
    ranks.communicator.all_reduce(ranks.buffers(memory, memory), 1, kFloat32);
    const Stream optimizer = Stream::default_stream(Device::cuda(1));
    if (ordered) optimizer.wait(ranks.streams[1].record());
    const MemoryAccess read = {{memory[1], 4}, AccessKind::read};
    const auto step = [&] {
      ranks.state(1).backend.launch(StreamAccess::handle(optimizer), {"step", 0, {&read, 1}},
                                    [](const KernelContext&) {});
    };
    EXPECT_EQ(message_of<RaceError>(step) == "no error", ordered);
    ranks.synchronize();
    optimizer.synchronize();
  }
}

// Rank 0's result proves that rank 1 has begun, but not that it has written its own.
TEST(Communicator, AnotherRanksResultNeedsAnEvent) {
  for (const bool ordered : {false, true}) {
    Ranks ranks(2);
    const auto memory = ranks.put_all({bytes_of<float>({1}), bytes_of<float>({2})});
    void* const copy = ranks.allocate(0, 4);
    ranks.communicator.all_reduce(ranks.buffers(memory, memory), 1, kFloat32);
    if (ordered) ranks.streams[0].wait(ranks.streams[1].record());
    const auto fetch = [&] { ranks.state(0).backend.copy(ranks.handle(0), {copy, memory[1], 0, 1, 4, 1, 4, 4}); };
    EXPECT_EQ(message_of<RaceError>(fetch) == "no error", ordered);
    ranks.synchronize();
  }
}

TEST(Communicator, EachRankMustGiveMemoryOfItsOwnDevice) {
  Ranks ranks(2);
  const auto memory = ranks.put_all({bytes_of<float>({1}), bytes_of<float>({2})});
  const auto other = ranks.allocate_all(4);
  const std::string message = message_of<BackendError>([&] {
    ranks.communicator.all_reduce(ranks.buffers({memory[0], other[0]}, memory), 1, kFloat32);
  });
  EXPECT_NE(message.find("[all_reduce] failed on cuda:1 with code 700"), std::string::npos) << message;
}

TEST(Communicator, OptionsThatMakeNoSenseThrow) {
  const SimulatedDevices devices({.count = 2});
  const auto message = [](const CommunicatorOptions& options) {
    return message_of<InvalidArgument>([&] { Communicator(std::vector<Device>{"cuda:0", "cuda:1"}, {}, options); });
  };
  EXPECT_NE(message({.max_ctas = -1}).find("expected max_ctas from 0"), std::string::npos);
  EXPECT_NE(message({.max_ctas = 65}).find("to 64, got 65"), std::string::npos);
  EXPECT_NE(message({.time_limit = std::chrono::seconds(0)}).find("time_limit above 0 ms, got 0"), std::string::npos);
  EXPECT_EQ(message({.max_ctas = 64, .time_limit = std::chrono::milliseconds(1)}), "no error");
}

TEST(Communicator, WrongArgumentsThrowBeforeAnythingIsEnqueued) {
  Ranks ranks(2);
  Communicator& c = ranks.communicator;
  const auto memory = ranks.allocate_all(64);
  const auto all = ranks.buffers(memory, memory);
  const auto before = ranks.devices.counts(0).collectives;
  auto shifted = memory;
  shifted[1] = static_cast<std::byte*>(memory[1]) + 4;
  const std::vector<std::size_t> counts = {1, 2, 3};
  const Transfer to_nobody = {0, 2, memory[0], memory[1], 1};
  const Transfer twice[] = {{0, 1, memory[0], memory[1], 2}, {0, 1, memory[0], shifted[1], 1}};
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const auto wrong = [](auto body) { return message_of<InvalidArgument>(body); };
  expect(wrong([&] { c.all_reduce(std::span(all).first(1), 1, kFloat32); }), "one part for each of 2 ranks, got 1");
  expect(wrong([&] { c.broadcast(all, 1, kFloat32, 2); }), "a root from 0 to 1, got 2");
  expect(wrong([&] { c.reduce(all, 1, kFloat32, -1); }), "a root from 0 to 1, got -1");
  expect(wrong([&] { c.all_gather(all, counts, kFloat32); }), "counts of 2 ranks, got 3");
  expect(wrong([&] {
           c.send_receive(ranks.streams, {&to_nobody, 1}, kFloat32);
         }),
         "a receiving rank from 0 to 1, got 2");
  expect(wrong([&] { c.send_receive(ranks.streams, twice, kFloat32); }), "overlap");
  expect(wrong([&] { c.all_reduce(ranks.buffers({memory[0], nullptr}, memory), 1, kFloat32); }), "for rank 1, got 0");
  expect(wrong([&] { c.all_reduce(ranks.buffers(memory, shifted), 2, kFloat32); }),
         "buffers of rank 1 and rank 1 that overlap");
  expect(wrong([&] { c.all_reduce(ranks.buffers(shifted, memory), 1, kFloat64); }), "send buffer");
  for (const std::size_t underflown : {~std::size_t(0) / 2, ~std::size_t(0) / 4})
    expect(wrong([&] { c.all_reduce(all, underflown, kFloat32); }), "whose bytes can be addressed");
  expect(wrong([&] { c.all_reduce(all, ~std::size_t(0), kUInt8); }), "whose bytes can be addressed");
  expect(message_of<DTypeError>([&] { c.all_reduce(all, 1, kInt32, ReduceOp::mean); }),
         "floating dtype for the mean, got int32");
  const std::vector<Stream> swapped = {ranks.streams[1], ranks.streams[0]};
  expect(message_of<DeviceMismatch>([&] { c.barrier(swapped); }), "a stream of cuda:0 for rank 0, got one of cuda:1");
  EXPECT_EQ(ranks.devices.counts(0).collectives, before);
  ranks.synchronize();
}

TEST(Communicator, RefusesOperationsAndDTypesThatThereAreNot) {
  Ranks ranks(2);
  const auto memory = ranks.put_all({bytes_of<float>({1}), bytes_of<float>({2})});
  const auto buffers = ranks.buffers(memory, memory);
  EXPECT_EQ(message_of<InvalidArgument>([&] { ranks.communicator.all_reduce(buffers, 1, kFloat32, ReduceOp(77)); }),
            "[all_reduce] expected sum, mean, max or min, got operation 77");
  EXPECT_EQ(message_of<DTypeError>([&] { ranks.communicator.all_reduce(buffers, 1, DType(99)); }),
            "[all_reduce] expected a dtype, got an unknown dtype");
  EXPECT_EQ(ranks.values<float>(0, memory[0], 1), std::vector<float>{1});
}

TEST(Communicator, AGroupHasEachDeviceOnceAndOneKindOfThem) {
  SimulatedDevices devices({.count = 2});
  EXPECT_THROW(Communicator({}), InvalidArgument);
  EXPECT_THROW(Communicator({Device::cuda(0), Device::cuda(0)}), InvalidArgument);
  EXPECT_THROW(Communicator({Device::cuda(2)}), InvalidArgument);
  EXPECT_THROW(Communicator({Device::cuda(0), Device()}), DeviceMismatch);
  EXPECT_EQ(Communicator({Device::cuda(1), Device::cuda(0)}).devices()[0], Device::cuda(1));
}

TEST(Communicator, OneThreadAtATime) {
  Ranks ranks(2);
  std::atomic<bool> refused = false;
  const auto use = [&] {
    for (int i = 0; i < 200'000 && !refused; ++i) {
      const std::string message = message_of<InvalidArgument>([&] { ranks.communicator.barrier(ranks.streams); });
      if (message.find("two threads use this communicator") != std::string::npos) refused = true;
    }
  };
  std::thread other(use);
  use();
  other.join();
  EXPECT_TRUE(refused);
}

TEST(Communicator, DevicesThatAreGoneThrow) {
  std::optional<Communicator> communicator;
  {
    SimulatedDevices devices({.count = 1});
    communicator.emplace(gpus(1));
  }
  SimulatedDevices others({.count = 1});
  EXPECT_THROW(communicator->barrier(std::array{Stream::default_stream(Device::cuda(0))}), InvalidArgument);
}

TEST(Communicator, OneCpuIsAGroupToo) {
  Communicator communicator({Device()});
  std::vector<float> from = {1, 2, 3}, to(3);
  const RankBuffers buffers = {Stream::default_stream(Device()), from.data(), to.data()};
  communicator.all_reduce({&buffers, 1}, 3, kFloat32, ReduceOp::mean);
  EXPECT_EQ(to, from);
}

// No order of several communicators on any streams hangs.
TEST(Communicator, ManyCommunicatorsAndStreamsNeverHang) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    Ranks ranks(4, {.seed = seed, .max_delay_us = 40});
    std::vector<Communicator> groups;
    groups.emplace_back(gpus(4));
    groups.emplace_back(std::vector{Device::cuda(2), Device::cuda(0)});
    groups.emplace_back(std::vector{Device::cuda(3), Device::cuda(1), Device::cuda(2)});
    std::mt19937 random(seed);
    std::vector<Stream> used;
    for (int step = 0; step < 150; ++step) {
      Communicator& group = groups[random() % groups.size()];
      std::vector<Stream> streams;
      for (const Device device : group.devices())
        streams.push_back(random() % 2 ? Stream::default_stream(device) : ranks.streams[std::size_t(device.index())]);
      group.barrier(streams);
      const int rank = int(random() % 4);
      ranks.launch(rank, "work", {}, [] {});
      if (random() % 3 == 0)
        Stream::default_stream(Device::cuda(int(random() % 4))).wait(ranks.streams[std::size_t(rank)].record());
    }
    for (const Device device : gpus(4)) synchronize(device);
  }
}

}  // namespace
}  // namespace lockstep::testing
