// What collectives compute: against plain loops, for every operation, dtype and number of ranks; the same bits on all
// ranks whatever the timing; their order among other work, and what the race checker makes of it.
#include <array>
#include <atomic>
#include <cmath>
#include <future>
#include <numeric>
#include <random>
#include <thread>

#include "runtime/ranks.h"

namespace lockstep::testing {
namespace {

constexpr DType kAllDTypes[] = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};
constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin};
constexpr std::size_t kSizes[] = {0, 1, 7, 1001, 70'003};

using Counts = std::vector<std::size_t>;

template <class Visit>
auto visit(DType dtype, const Visit& visitor) {
  switch (dtype) {
    case kBool:
    case kUInt8:
      return visitor.template operator()<std::uint8_t>();
    case kInt32:
      return visitor.template operator()<std::int32_t>();
    case kInt64:
      return visitor.template operator()<std::int64_t>();
    case kFloat16:
      return visitor.template operator()<Half>();
    case kBFloat16:
      return visitor.template operator()<BFloat16>();
    case kFloat32:
      return visitor.template operator()<float>();
    case kFloat64:
      break;
  }
  return visitor.template operator()<double>();
}

Bytes sample(DType dtype, std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  return visit(dtype, [&]<class T>() {
    std::vector<T> values(count);
    for (T& value : values) {
      if (dtype == kBool)
        value = T(float(random() % 2));
      else if constexpr (std::is_integral_v<T>)
        value = T(random());
      else
        value = T(float(std::normal_distribution<double>()(random)));
    }
    return bytes_of(values);
  });
}

std::vector<Bytes> samples(DType dtype, std::size_t count, int ranks, unsigned seed = 1) {
  std::vector<Bytes> result;
  for (int rank = 0; rank < ranks; ++rank) result.push_back(sample(dtype, count, seed * 1000 + unsigned(rank)));
  return result;
}

// In the order of the ranks, 16-bit floats in float.
template <class T>
T reduced(ReduceOp op, bool is_bool, const std::vector<T>& column) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double,
                                  std::conditional_t<std::is_integral_v<T>, std::int64_t, float>>;
  Wide result = Wide(column[0]);
  for (std::size_t rank = 1; rank < column.size(); ++rank) {
    const Wide next = Wide(column[rank]);
    if (op == ReduceOp::kMax || (op == ReduceOp::kSum && is_bool)) {
      result = std::max(result, next);
    } else if (op == ReduceOp::kMin) {
      result = std::min(result, next);
    } else if constexpr (std::is_integral_v<Wide>) {
      result = Wide(std::uint64_t(result) + std::uint64_t(next));
    } else {
      result = result + next;
    }
  }
  if (op == ReduceOp::kMean) result = result / Wide(column.size());
  return T(result);
}

Bytes oracle(DType dtype, ReduceOp op, const std::vector<Bytes>& inputs) {
  return visit(dtype, [&]<class T>() {
    std::vector<std::vector<T>> ranks;
    for (const Bytes& input : inputs) ranks.push_back(values_of<T>(input));
    std::vector<T> result(ranks[0].size());
    for (std::size_t i = 0; i < result.size(); ++i) {
      std::vector<T> column;
      for (const auto& rank : ranks) column.push_back(rank[i]);
      result[i] = reduced(op, dtype == kBool, column);
    }
    return bytes_of(result);
  });
}

Bytes slice(const Bytes& bytes, std::size_t begin, std::size_t count) {
  return {bytes.begin() + std::ptrdiff_t(begin), bytes.begin() + std::ptrdiff_t(begin + count)};
}

// Shares of n elements that differ, some of them empty.
Counts uneven(std::size_t n, int ranks) {
  Counts counts(std::size_t(ranks), 0);
  for (std::size_t i = 0; i < n; ++i) ++counts[(i * i + i / 3) % counts.size()];
  if (ranks > 2) counts[1] += std::exchange(counts[2], 0);
  return counts;
}

template <class Body>
void for_all_cases(const Body& body) {
  for (const DType dtype : kAllDTypes)
    for (const std::size_t count : kSizes) {
      SCOPED_TRACE(std::string(name(dtype)) + ", count " + std::to_string(count));
      body(dtype, count);
    }
}

template <class Body>
void for_all_reductions(const Body& body) {
  for_all_cases([&](DType dtype, std::size_t count) {
    for (const ReduceOp op : kAllOps) {
      if (op == ReduceOp::kMean && !is_floating(dtype)) continue;
      if (op != ReduceOp::kSum && count > 10'000) continue;  // the sum has shown how large ones are divided
      SCOPED_TRACE("op " + std::to_string(int(op)));
      body(dtype, count, op);
    }
  });
}

// What a reduction gives is the same everywhere, but that NCCL adds floats in an order of its own.
void expect_reduced(const Bytes& got, const Bytes& expected, DType dtype) {
  if (kind_of_devices() != "cuda" || !is_floating(dtype)) {
    EXPECT_EQ(got, expected);
    return;
  }
  visit(dtype, [&]<class T>() {
    const std::vector<T> values = values_of<T>(got), truth = values_of<T>(expected);
    ASSERT_EQ(values.size(), truth.size());
    const double precision = size_of(dtype) == 8 ? 1e-14 : size_of(dtype) == 4 ? 1e-6 : dtype == kFloat16 ? 4e-3 : 3e-2;
    for (std::size_t i = 0; i < truth.size(); ++i)
      ASSERT_NEAR(double(values[i]), double(truth[i]), precision * (8 + std::abs(double(truth[i])))) << "element " << i;
  });
}

class Collectives : public ::testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }
  template <class Group>
  Bytes get(Group& ranks, int rank, const std::vector<void*>& memory, std::size_t bytes) {
    return ranks.get(rank, memory[std::size_t(rank)], bytes);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1, 2, 3, 5, 8));

TEST_P(Collectives, AllReduceGivesEveryRankTheReductionOfAll) {
  for_all_reductions([&](DType dtype, std::size_t count, ReduceOp op) {
    AnyRanks ranks(size());
    const std::vector<Bytes> inputs = samples(dtype, count, size());
    const Bytes expected = oracle(dtype, op, inputs);
    const auto send = ranks.put_all(inputs), receive = ranks.allocate_all(expected.size());
    ranks.communicator.all_reduce(ranks.buffers(send, receive), count, dtype, op);
    for (int rank = 0; rank < size(); ++rank) {
      expect_reduced(get(ranks, rank, receive, expected.size()), expected, dtype);
      EXPECT_EQ(get(ranks, rank, send, expected.size()), inputs[std::size_t(rank)]);  // untouched
    }
    ranks.communicator.all_reduce(ranks.buffers(send, send), count, dtype, op);  // in place
    for (int rank = 0; rank < size(); ++rank) expect_reduced(get(ranks, rank, send, expected.size()), expected, dtype);
  });
}

TEST_P(Collectives, ReduceGivesTheRootTheReductionOfAll) {
  for_all_reductions([&](DType dtype, std::size_t count, ReduceOp op) {
    AnyRanks ranks(size());
    const int root = size() - 1;
    const std::vector<Bytes> inputs = samples(dtype, count, size());
    const Bytes expected = oracle(dtype, op, inputs);
    const auto send = ranks.put_all(inputs);
    std::vector<void*> receive(std::size_t(size()), nullptr);
    receive[std::size_t(root)] = ranks.allocate(root, expected.size());
    ranks.communicator.reduce(ranks.buffers(send, receive), count, dtype, root, op);
    expect_reduced(get(ranks, root, receive, expected.size()), expected, dtype);
    ranks.communicator.reduce(ranks.buffers(send, send), count, dtype, root, op);  // in place
    for (int rank = 0; rank < size(); ++rank)
      if (rank == root)
        expect_reduced(get(ranks, rank, send, expected.size()), expected, dtype);
      else
        EXPECT_EQ(get(ranks, rank, send, expected.size()), inputs[std::size_t(rank)]);
  });
}

TEST_P(Collectives, BroadcastGivesEveryRankTheRootsValues) {
  for_all_cases([&](DType dtype, std::size_t count) {
    AnyRanks ranks(size());
    const int root = size() / 2;
    const Bytes values = sample(dtype, count, 7);
    std::vector<void*> send(std::size_t(size()), nullptr);
    send[std::size_t(root)] = ranks.put(root, values);
    const auto receive = ranks.allocate_all(values.size());
    ranks.communicator.broadcast(ranks.buffers(send, receive), count, dtype, root);
    for (int rank = 0; rank < size(); ++rank) EXPECT_EQ(get(ranks, rank, receive, values.size()), values);
    auto in_place = receive;
    in_place[std::size_t(root)] = send[std::size_t(root)];
    ranks.communicator.broadcast(ranks.buffers(in_place, in_place), count, dtype, root);
    for (int rank = 0; rank < size(); ++rank) EXPECT_EQ(get(ranks, rank, in_place, values.size()), values);
  });
}

TEST_P(Collectives, ReduceScatterGivesEveryRankItsShareOfTheReduction) {
  for_all_reductions([&](DType dtype, std::size_t count, ReduceOp op) {
    AnyRanks ranks(size());
    const Counts counts = uneven(count, size());
    const std::size_t element = size_of(dtype);
    const std::vector<Bytes> inputs = samples(dtype, count, size());
    const Bytes expected = oracle(dtype, op, inputs);
    const auto send = ranks.put_all(inputs);
    std::vector<void*> receive, in_place;
    for (std::size_t rank = 0, offset = 0; rank < counts.size(); offset += counts[rank++] * element) {
      receive.push_back(ranks.allocate(int(rank), counts[rank] * element));
      in_place.push_back(static_cast<std::byte*>(send[rank]) + offset);
    }
    const auto expect = [&](const std::vector<void*>& memory) {
      for (std::size_t rank = 0, offset = 0; rank < counts.size(); offset += counts[rank++] * element)
        expect_reduced(get(ranks, int(rank), memory, counts[rank] * element),
                       slice(expected, offset, counts[rank] * element), dtype);
    };
    ranks.communicator.reduce_scatter(ranks.buffers(send, receive), counts, dtype, op);
    expect(receive);
    ranks.communicator.reduce_scatter(ranks.buffers(send, in_place), counts, dtype, op);
    expect(in_place);
  });
}

TEST_P(Collectives, AllGatherGivesEveryRankTheSharesOfAll) {
  for_all_cases([&](DType dtype, std::size_t count) {
    AnyRanks ranks(size());
    const Counts counts = uneven(count, size());
    const std::size_t element = size_of(dtype);
    const Bytes whole = sample(dtype, count, 3);
    const auto receive = ranks.allocate_all(whole.size()), gathered = ranks.allocate_all(whole.size());
    std::vector<void*> send, in_place;
    for (std::size_t rank = 0, offset = 0; rank < counts.size(); offset += counts[rank++] * element) {
      const Bytes share = slice(whole, offset, counts[rank] * element);
      send.push_back(ranks.put(int(rank), share));
      in_place.push_back(static_cast<std::byte*>(gathered[rank]) + offset);
      ranks.write(int(rank), in_place.back(), share);
    }
    ranks.communicator.all_gather(ranks.buffers(send, receive), counts, dtype);
    ranks.communicator.all_gather(ranks.buffers(in_place, gathered), counts, dtype);
    for (int rank = 0; rank < size(); ++rank) {
      EXPECT_EQ(get(ranks, rank, receive, whole.size()), whole);
      EXPECT_EQ(get(ranks, rank, gathered, whole.size()), whole);
    }
  });
}

TEST_P(Collectives, SendReceivePassesMessagesAroundARingAndToOneself) {
  for_all_cases([&](DType dtype, std::size_t count) {
    AnyRanks ranks(size());
    const std::vector<Bytes> inputs = samples(dtype, count, size());
    const auto send = ranks.put_all(inputs), next = ranks.allocate_all(inputs[0].size()),
               own = ranks.allocate_all(inputs[0].size());
    std::vector<Transfer> transfers;
    for (int rank = 0; rank < size(); ++rank) {
      const int to = (rank + 1) % size();
      transfers.push_back({rank, to, send[std::size_t(rank)], next[std::size_t(to)], count});
      transfers.push_back({rank, rank, send[std::size_t(rank)], own[std::size_t(rank)], count});
    }
    ranks.communicator.send_receive(ranks.streams, transfers, dtype);
    for (int rank = 0; rank < size(); ++rank) {
      EXPECT_EQ(get(ranks, rank, next, inputs[0].size()), inputs[std::size_t((rank + size() - 1) % size())]);
      EXPECT_EQ(get(ranks, rank, own, inputs[0].size()), inputs[std::size_t(rank)]);
    }
  });
}

TEST_P(Collectives, TheBitsDoNotDependOnTiming) {
  constexpr std::size_t kCount = 100'001;
  const std::vector<Bytes> inputs = samples(kFloat32, kCount, size());
  const Bytes expected = oracle(kFloat32, ReduceOp::kSum, inputs);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Ranks ranks(size(), {.seed = seed, .max_delay_us = 300});
    const auto memory = ranks.put_all(inputs);
    ranks.communicator.all_reduce(ranks.buffers(memory, memory), kCount, kFloat32);
    for (int rank = 0; rank < size(); ++rank) EXPECT_EQ(get(ranks, rank, memory, kCount * 4), expected);
  }
}

TEST_P(Collectives, OperationsFollowEachOtherInTheOrderOfTheStreams) {
  Ranks ranks(size(), {.seed = 5, .max_delay_us = 50});
  const auto memory = ranks.put_all(std::vector<Bytes>(std::size_t(size()), bytes_of(std::vector<double>{1})));
  double expected = 1;
  for (int step = 0; step < 20; ++step) {
    ranks.communicator.all_reduce(ranks.buffers(memory, memory), 1, kFloat64);
    expected *= size();
    for (int rank = 0; rank < size(); ++rank) {
      auto* const value = static_cast<double*>(memory[std::size_t(rank)]);
      const Region region = {value, sizeof(double)};
      ranks.launch(rank, "step", {{region, AccessKind::kRead}, {region, AccessKind::kWrite}},
                   [value] { *value = *value / 2 + 1; });
    }
    expected = expected / 2 + 1;
  }
  for (int rank = 0; rank < size(); ++rank)
    EXPECT_EQ(ranks.values<double>(rank, memory[std::size_t(rank)], 1), std::vector<double>{expected});
}

TEST(Communicator, ANaNOfAnyRankMakesTheMaximumAndTheMinimumNaN) {
  for (int which = 0; which < 3; ++which)
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
      Ranks ranks(3);
      std::vector<void*> memory;
      for (int rank = 0; rank < 3; ++rank)
        memory.push_back(ranks.put(rank, bytes_of<float>({rank == which ? NAN : 1})));
      ranks.communicator.all_reduce(ranks.buffers(memory, memory), 1, kFloat32, op);
      EXPECT_TRUE(std::isnan(ranks.values<float>(0, memory[0], 1)[0]));
    }
}

TEST(Communicator, HalfSumsRoundOnce) {
  Ranks ranks(3);  // 2048 + 1 is 2048 in float16
  std::vector<void*> memory;
  for (const float value : {2048.f, 1.f, 1.f})
    memory.push_back(ranks.put(int(memory.size()), bytes_of<Half>({Half(value)})));
  ranks.communicator.all_reduce(ranks.buffers(memory, memory), 1, kFloat16);
  EXPECT_EQ(float(ranks.values<Half>(1, memory[1], 1)[0]), 2050.f);
}

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
  ranks.launch(0, "write", {{{x, 4}, AccessKind::kWrite}}, [x] { *x = 2; });
  void* const copy = ranks.allocate(2, 4);
  ranks.communicator.barrier(ranks.streams);
  ranks.state(2).backend.copy(ranks.handle(2), {copy, x, 2, 0, 4, 1, 4, 4});  // would be a RaceError
  EXPECT_EQ(ranks.values<float>(2, copy, 1), std::vector<float>{2});
}

TEST(Communicator, MemoryThatAnotherStreamWritesIsARaceUnlessAnEventOrdersIt) {
  for (const bool ordered : {false, true}) {
    Ranks ranks(2);
    const auto memory = ranks.put_all({bytes_of<float>({1}), bytes_of<float>({2})});
    ranks.synchronize();
    const Stream compute = Stream::from_pool(Device::cuda(1));
    const Access write = {{memory[1], 4}, AccessKind::kWrite};
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
  const Access write = {{memory[0], 4}, AccessKind::kWrite};
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
    const Access read = {{memory[1], 4}, AccessKind::kRead};
    const auto step = [&] {
      ranks.state(1).backend.launch(StreamAccess::handle(optimizer), {"step", 0, {&read, 1}},
                                    [](const KernelContext&) {});
    };
    EXPECT_EQ(message_of<RaceError>(step) == "no error", ordered);
    ranks.synchronize();
    optimizer.synchronize();
  }
}

// Rank 0's part proves that rank 1 has begun, but not that it has written.
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

TEST(Communicator, WrongArgumentsThrowBeforeAnythingIsEnqueued) {
  Ranks ranks(2);
  Communicator& c = ranks.communicator;
  const auto memory = ranks.allocate_all(64);
  const auto all = ranks.buffers(memory, memory);
  const auto before = ranks.devices.counts(0).collectives;
  auto shifted = memory;
  shifted[1] = static_cast<std::byte*>(memory[1]) + 4;
  const Counts counts = {1, 2, 3};
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
  expect(wrong([&] { c.all_reduce(all, ~std::size_t(0) / 2, kFloat32); }), "whose bytes can be addressed");
  expect(message_of<DTypeError>([&] { c.all_reduce(all, 1, kInt32, ReduceOp::kMean); }),
         "floating dtype for the mean, got int32");
  const std::vector<Stream> swapped = {ranks.streams[1], ranks.streams[0]};
  expect(message_of<DeviceMismatch>([&] { c.barrier(swapped); }), "a stream of cuda:0 for rank 0, got one of cuda:1");
  EXPECT_EQ(ranks.devices.counts(0).collectives, before);
  ranks.synchronize();
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
      if (message.find("one thread at a time") != std::string::npos) refused = true;
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
  communicator.all_reduce({&buffers, 1}, 3, kFloat32, ReduceOp::kMean);
  EXPECT_EQ(to, from);
}

// Whatever the order in which several communicators are used on whatever streams, nothing waits for ever.
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
