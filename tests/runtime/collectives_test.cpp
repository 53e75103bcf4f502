// The results of collectives against plain loops, for every operation, dtype and number of ranks; and identical bits on
// all ranks, whatever the timing.
#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "runtime/ranks.h"

namespace lockstep::testing {
namespace {

constexpr DType kAllDTypes[] = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};
constexpr ReduceOp kAllOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min};
constexpr std::size_t kSizes[] = {0, 1, 7, 1001, 70'003};
constexpr std::size_t kMaxRanks = 8;

using Counts = std::vector<std::size_t>;

template <class Visit>
auto visit(DType dtype, const Visit& visitor) {
  switch (dtype) {
    case kBool:
    case kUInt8: return visitor.template operator()<std::uint8_t>();
    case kInt32: return visitor.template operator()<std::int32_t>();
    case kInt64: return visitor.template operator()<std::int64_t>();
    case kFloat16: return visitor.template operator()<Half>();
    case kBFloat16: return visitor.template operator()<BFloat16>();
    case kFloat32: return visitor.template operator()<float>();
    case kFloat64: break;
  }
  return visitor.template operator()<double>();
}

Bytes random_bytes(DType dtype, std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  return visit(dtype, [&]<class T>() {
    std::vector<T> values(count);
    for (T& value : values) {
      if (dtype == kBool)
        value = T(float(random() % 2));
      else if constexpr (std::is_integral_v<T>)
        value = T(random());
      else
        value = T(float(std::int32_t(random())) * 0x1p-30f);
    }
    return bytes_of(values);
  });
}

// The input of each rank; cached for all tests.
std::span<const Bytes> samples(DType dtype, std::size_t count, int ranks) {
  static std::map<std::pair<DType, std::size_t>, std::vector<Bytes>> made;
  std::vector<Bytes>& all = made[{dtype, count}];
  all.reserve(kMaxRanks);
  while (all.size() < std::size_t(ranks)) all.push_back(random_bytes(dtype, count, unsigned(all.size())));
  return std::span(all).first(std::size_t(ranks));
}

const Bytes& sample(DType dtype, std::size_t count) { return samples(dtype, count, 1)[0]; }

// Reduces in rank order, 16-bit floats in float. Uses pointers, because unoptimized and sanitized builds spend most of
// their time here.
template <class T>
Bytes reduced(ReduceOp op, bool is_bool, std::span<const Bytes> inputs) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double,
                                  std::conditional_t<std::is_integral_v<T>, std::int64_t, float>>;
  const std::size_t count = inputs[0].size() / sizeof(T);
  std::vector<Wide> result(count);
  const auto with_each = [&](const Bytes& input, const auto& combine) {
    const T* from = reinterpret_cast<const T*>(input.data());
    Wide* to = result.data();
    for (const Wide* const end = to + count; to != end; ++to, ++from) combine(*to, Wide(*from));
  };
  with_each(inputs[0], [](Wide& all, Wide next) { all = next; });
  for (const Bytes& input : inputs.subspan(1)) {
    if (op == ReduceOp::max || (op == ReduceOp::sum && is_bool))
      with_each(input, [](Wide& all, Wide next) { all = all < next ? next : all; });
    else if (op == ReduceOp::min)
      with_each(input, [](Wide& all, Wide next) { all = next < all ? next : all; });
    else if constexpr (std::is_integral_v<Wide>)
      with_each(input, [](Wide& all, Wide next) { all = Wide(std::uint64_t(all) + std::uint64_t(next)); });
    else
      with_each(input, [](Wide& all, Wide next) { all += next; });
  }
  Bytes bytes(inputs[0].size());
  T* to = reinterpret_cast<T*>(bytes.data());
  const Wide divisor = op == ReduceOp::mean ? Wide(inputs.size()) : Wide(1);
  for (const Wide *from = result.data(), *const end = from + count; from != end; ++from, ++to) *to = T(*from / divisor);
  return bytes;
}

// The reduction of these samples; cached.
const Bytes& oracle(DType dtype, ReduceOp op, std::size_t count, int ranks) {
  static std::map<std::tuple<DType, ReduceOp, std::size_t, int>, Bytes> computed;
  const auto [found, is_new] = computed.try_emplace({dtype, op, count, ranks});
  if (is_new)
    found->second =
        visit(dtype, [&]<class T>() { return reduced<T>(op, dtype == kBool, samples(dtype, count, ranks)); });
  return found->second;
}

// Uneven shares of n elements, some of them empty.
Counts uneven(std::size_t n, int ranks) {
  Counts counts(std::size_t(ranks), 0);
  for (std::size_t i = 0; i < n; ++i) ++counts[(i * i + i / 3) % counts.size()];
  if (ranks > 2) counts[1] += std::exchange(counts[2], 0);
  return counts;
}

class Collectives : public ::testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }

  // Uses one group per dtype; frees its memory after each case.
  template <class Body>
  void for_all_cases(const Body& body) const {
    for (const DType dtype : kAllDTypes) {
      AnyRanks ranks(size());
      for (const std::size_t count : kSizes) {
        SCOPED_TRACE(std::string(name(dtype)) + ", count " + std::to_string(count));
        body(ranks, dtype, count);
        ranks.free_all();
      }
    }
  }
  template <class Body>
  void for_all_reductions(const Body& body) const {
    for_all_cases([&](AnyRanks& ranks, DType dtype, std::size_t count) {
      for (const ReduceOp op : kAllOps) {
        if (op == ReduceOp::mean && !is_floating(dtype)) continue;
        if (op != ReduceOp::sum && count > 10'000) continue;  // the sum covers the division of large counts
        SCOPED_TRACE("op " + std::to_string(int(op)));
        body(ranks, dtype, count, op);
        ranks.free_all();
      }
    });
  }

  // Expects equal bits, except that NCCL adds floats in its own order.
  template <class Group>
  void expect_reduced(Group& ranks, int rank, const void* memory, std::span<const std::byte> expected, DType dtype) {
    if (kind_of_devices() != "cuda" || !is_floating(dtype)) {
      EXPECT_TRUE(ranks.holds(rank, memory, expected));
      return;
    }
    visit(dtype, [&]<class T>() {
      const std::vector<T> values = ranks.template values<T>(rank, memory, expected.size() / sizeof(T)),
                           truth = values_of<T>(Bytes(expected.begin(), expected.end()));
      ASSERT_EQ(values.size(), truth.size());
      const double precision = size_of(dtype) == 8   ? 1e-14
                               : size_of(dtype) == 4 ? 1e-6
                               : dtype == kFloat16   ? 4e-3
                                                     : 3e-2;
      for (std::size_t i = 0; i < truth.size(); ++i)
        ASSERT_NEAR(double(values[i]), double(truth[i]), precision * (8 + std::abs(double(truth[i]))))
            << "element " << i;
    });
  }
  template <class Group>
  void expect_reduced(Group& ranks, const std::vector<void*>& memory, const Bytes& expected, DType dtype) {
    for (int rank = 0; rank < size(); ++rank) expect_reduced(ranks, rank, memory[std::size_t(rank)], expected, dtype);
  }
  template <class Group>
  void expect_inputs(Group& ranks, const std::vector<void*>& memory, std::span<const Bytes> inputs) {
    for (int rank = 0; rank < size(); ++rank)
      EXPECT_TRUE(ranks.holds(rank, memory[std::size_t(rank)], inputs[std::size_t(rank)])) << "rank " << rank;
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1, 2, 3, 5, 8));

TEST_P(Collectives, AllReduceGivesEveryRankTheReductionOfAll) {
  for_all_reductions([&](AnyRanks& ranks, DType dtype, std::size_t count, ReduceOp op) {
    const auto inputs = samples(dtype, count, size());
    const Bytes& expected = oracle(dtype, op, count, size());
    const auto send = ranks.put_all(inputs), receive = ranks.allocate_all(expected.size());
    ranks.communicator.all_reduce(ranks.buffers(send, receive), count, dtype, op);
    expect_reduced(ranks, receive, expected, dtype);
    expect_inputs(ranks, send, inputs);                                          // untouched
    ranks.communicator.all_reduce(ranks.buffers(send, send), count, dtype, op);  // in place
    expect_reduced(ranks, send, expected, dtype);
  });
}

TEST_P(Collectives, ReduceGivesTheRootTheReductionOfAll) {
  for_all_reductions([&](AnyRanks& ranks, DType dtype, std::size_t count, ReduceOp op) {
    const int root = size() - 1;
    const auto inputs = samples(dtype, count, size());
    const Bytes& expected = oracle(dtype, op, count, size());
    const auto send = ranks.put_all(inputs);
    std::vector<void*> receive(std::size_t(size()), nullptr);
    receive[std::size_t(root)] = ranks.allocate(root, expected.size());
    ranks.communicator.reduce(ranks.buffers(send, receive), count, dtype, root, op);
    expect_reduced(ranks, root, receive[std::size_t(root)], expected, dtype);
    ranks.communicator.reduce(ranks.buffers(send, send), count, dtype, root, op);  // in place
    for (int rank = 0; rank < size(); ++rank)
      if (rank == root)
        expect_reduced(ranks, rank, send[std::size_t(rank)], expected, dtype);
      else
        EXPECT_TRUE(ranks.holds(rank, send[std::size_t(rank)], inputs[std::size_t(rank)]));
  });
}

TEST_P(Collectives, BroadcastGivesEveryRankTheRootsValues) {
  for_all_cases([&](AnyRanks& ranks, DType dtype, std::size_t count) {
    const int root = size() / 2;
    const Bytes& values = sample(dtype, count);
    std::vector<void*> send(std::size_t(size()), nullptr);
    send[std::size_t(root)] = ranks.put(root, values);
    const auto receive = ranks.allocate_all(values.size());
    ranks.communicator.broadcast(ranks.buffers(send, receive), count, dtype, root);
    for (int rank = 0; rank < size(); ++rank) EXPECT_TRUE(ranks.holds(rank, receive[std::size_t(rank)], values));
    auto in_place = receive;
    in_place[std::size_t(root)] = send[std::size_t(root)];
    ranks.communicator.broadcast(ranks.buffers(in_place, in_place), count, dtype, root);
    for (int rank = 0; rank < size(); ++rank) EXPECT_TRUE(ranks.holds(rank, in_place[std::size_t(rank)], values));
  });
}

TEST_P(Collectives, ReduceScatterGivesEveryRankItsShareOfTheReduction) {
  for_all_reductions([&](AnyRanks& ranks, DType dtype, std::size_t count, ReduceOp op) {
    const Counts counts = uneven(count, size());
    const std::size_t element = size_of(dtype);
    const auto inputs = samples(dtype, count, size());
    const Bytes& expected = oracle(dtype, op, count, size());
    const auto send = ranks.put_all(inputs);
    std::vector<void*> receive, in_place;
    for (std::size_t rank = 0, offset = 0; rank < counts.size(); offset += counts[rank++] * element) {
      receive.push_back(ranks.allocate(int(rank), counts[rank] * element));
      in_place.push_back(static_cast<std::byte*>(send[rank]) + offset);
    }
    const auto expect = [&](const std::vector<void*>& memory) {
      for (std::size_t rank = 0, offset = 0; rank < counts.size(); offset += counts[rank++] * element)
        expect_reduced(ranks, int(rank), memory[rank], std::span(expected).subspan(offset, counts[rank] * element),
                       dtype);
    };
    ranks.communicator.reduce_scatter(ranks.buffers(send, receive), counts, dtype, op);
    expect(receive);
    ranks.communicator.reduce_scatter(ranks.buffers(send, in_place), counts, dtype, op);
    expect(in_place);
  });
}

TEST_P(Collectives, AllGatherGivesEveryRankTheSharesOfAll) {
  for_all_cases([&](AnyRanks& ranks, DType dtype, std::size_t count) {
    const Counts counts = uneven(count, size());
    const std::size_t element = size_of(dtype);
    const Bytes& whole = sample(dtype, count);
    const auto receive = ranks.allocate_all(whole.size()), gathered = ranks.allocate_all(whole.size());
    std::vector<void*> send, in_place;
    for (std::size_t rank = 0, offset = 0; rank < counts.size(); offset += counts[rank++] * element) {
      const auto share = std::span(whole).subspan(offset, counts[rank] * element);
      send.push_back(ranks.put(int(rank), share));
      in_place.push_back(static_cast<std::byte*>(gathered[rank]) + offset);
      ranks.write(int(rank), in_place.back(), share);
    }
    ranks.communicator.all_gather(ranks.buffers(send, receive), counts, dtype);
    ranks.communicator.all_gather(ranks.buffers(in_place, gathered), counts, dtype);
    for (int rank = 0; rank < size(); ++rank) {
      EXPECT_TRUE(ranks.holds(rank, receive[std::size_t(rank)], whole));
      EXPECT_TRUE(ranks.holds(rank, gathered[std::size_t(rank)], whole));
    }
  });
}

TEST_P(Collectives, SendReceivePassesMessagesAroundARingAndToOneself) {
  for_all_cases([&](AnyRanks& ranks, DType dtype, std::size_t count) {
    const auto inputs = samples(dtype, count, size());
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
      const int from = (rank + size() - 1) % size();
      EXPECT_TRUE(ranks.holds(rank, next[std::size_t(rank)], inputs[std::size_t(from)]));
    }
    expect_inputs(ranks, own, inputs);
  });
}

TEST_P(Collectives, TheBitsDoNotDependOnTiming) {
  constexpr std::size_t kCount = 100'001;
  const auto inputs = samples(kFloat32, kCount, size());
  const Bytes& expected = oracle(kFloat32, ReduceOp::sum, kCount, size());
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Ranks ranks(size(), {.seed = seed, .max_delay_us = 300});
    const auto memory = ranks.put_all(inputs);
    ranks.communicator.all_reduce(ranks.buffers(memory, memory), kCount, kFloat32);
    for (int rank = 0; rank < size(); ++rank) EXPECT_TRUE(ranks.holds(rank, memory[std::size_t(rank)], expected));
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
      ranks.launch(rank, "step", {{region, AccessKind::read}, {region, AccessKind::write}},
                   [value] { *value = *value / 2 + 1; });
    }
    expected = expected / 2 + 1;
  }
  for (int rank = 0; rank < size(); ++rank)
    EXPECT_EQ(ranks.values<double>(rank, memory[std::size_t(rank)], 1), std::vector<double>{expected});
}

TEST(CollectivesAlone, ANaNOfAnyRankMakesTheMaximumAndTheMinimumNaN) {
  for (int which = 0; which < 3; ++which)
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
      Ranks ranks(3);
      std::vector<void*> memory;
      for (int rank = 0; rank < 3; ++rank)
        memory.push_back(ranks.put(rank, bytes_of<float>({rank == which ? NAN : 1})));
      ranks.communicator.all_reduce(ranks.buffers(memory, memory), 1, kFloat32, op);
      EXPECT_TRUE(std::isnan(ranks.values<float>(0, memory[0], 1)[0]));
    }
}

TEST(CollectivesAlone, HalfSumsRoundOnce) {
  Ranks ranks(3);  // 2048 + 1 is 2048 in float16
  std::vector<void*> memory;
  for (const float value : {2048.f, 1.f, 1.f})
    memory.push_back(ranks.put(int(memory.size()), bytes_of<Half>({Half(value)})));
  ranks.communicator.all_reduce(ranks.buffers(memory, memory), 1, kFloat16);
  EXPECT_EQ(float(ranks.values<Half>(1, memory[1], 1)[0]), 2050.f);
}

}  // namespace
}  // namespace lockstep::testing
