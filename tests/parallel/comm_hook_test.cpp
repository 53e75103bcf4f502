// A function of the user's sums buckets in place of the all-reduce.
#include <lockstep/parallel/comm_hook.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include <lockstep/nn/layers.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/random.h>

#include "support/in_processes.h"
#include "support/replicas.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::comm_hook {
namespace {

using testing::thrown;
using testing::values;

struct Net : nn::Module<Net> {
  nn::Linear first{6, 5}, last{5, 3};
  auto members() { return nn::members("first", first, "last", last); }
  Tensor forward(const Tensor& x) { return last(tanh(first(x))); }
};

BucketOptions small_buckets(CommHook hook) { return {.first_bytes = 64, .bytes = 128, .comm_hook = std::move(hook)}; }

// The gradients and weights after two steps; fails where replicas differ.
std::vector<double> trained(const CommHook& hook, const World& world = {}, int devices = 3) {
  const int rank = world.rank().value();
  DeviceIds ids;
  for (int d = 0; d < devices; ++d) ids.push_back(rank * devices + d);
  GeneratorState numbers{.seed = 7};
  const GeneratorGuard guard(numbers);
  DataParallel model(Net(), {.device_ids = ids, .buckets = small_buckets(hook), .world = world});
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  std::vector<double> all;
  for (int step = 0; step < 2; ++step) {
    const Tensor x = randn({12, 6}).narrow(0, rank * 12 / world.size(), 12 / world.size());
    optimizer.zero_grad();
    mean(square(model(x.to(model.device())))).backward();
    optimizer.step();
  }
  for (const Tensor& parameter : model.parameters()) {
    for (const double value : values(parameter.grad())) all.push_back(value);
    for (const double value : values(parameter)) all.push_back(value);
    for (const Tensor& replica : testing::other_replicas(parameter)) EXPECT_EQ(values(replica), values(parameter));
  }
  return all;
}

TEST(CommHook, ThatAllReducesChangesNoBit) {
  const SimulatedDevices devices({.count = 3});
  std::atomic<int> calls = 0;
  const auto all_reduce = [&](ReducingBucket& bucket) {
    ++calls;
    EXPECT_EQ(bucket.buffers().size(), 3u);
    bucket.all_reduce(bucket.buffers());
  };
  EXPECT_EQ(trained(all_reduce), trained({}));
  EXPECT_GE(calls, 4) << "several buckets, two steps";
}

TEST(CommHook, GetsEachBucketOncePerBackwardInTheOrderOfIndices) {
  const SimulatedDevices devices({.count = 3});
  std::vector<std::size_t> indices;  // by the launcher thread, which a backward waits for
  trained([&](ReducingBucket& bucket) {
    indices.push_back(bucket.index());
    bucket.all_reduce(bucket.buffers());
  });
  std::vector<std::size_t> counts;  // of buckets, by backward
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] == 0) counts.push_back(0);
    ASSERT_FALSE(counts.empty());
    EXPECT_EQ(indices[i], counts.back()++);
  }
  ASSERT_EQ(counts.size(), 2u) << "two steps";
  for (const std::size_t count : counts) EXPECT_GE(count, 2u);
}

TEST(CommHook, SumsInBfloat16) {
  const SimulatedDevices devices({.count = 3});
  const std::vector<double> exact = trained({}), rounded = trained(bfloat16_compress_hook);
  bool differs = false;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(rounded[i], exact[i], 0.02 * std::abs(exact[i]) + 2e-3);
    differs = differs || rounded[i] != exact[i];
  }
  EXPECT_TRUE(differs);
}

TEST(CommHook, SumsOverProcesses) {
  const SimulatedDevices devices({.count = 4});
  const auto all_reduce = [](ReducingBucket& bucket) { bucket.all_reduce(bucket.buffers()); };
  std::vector<std::vector<double>> hooked(2), plain(2);
  for (const std::exception_ptr& failure : testing::in_processes(2, [&](const World& world) {
         const auto rank = std::size_t(world.rank().value());
         hooked[rank] = trained(all_reduce, world, 2);
         plain[rank] = trained({}, world, 2);
       }))
    EXPECT_FALSE(failure);
  EXPECT_EQ(hooked[0], plain[0]);
  EXPECT_EQ(hooked[1], hooked[0]);
}

TEST(CommHook, ThatThrowsEndsTheBackward) {
  const SimulatedDevices devices({.count = 2});
  DataParallel model(Net(),
                     {.buckets = {.comm_hook = [](ReducingBucket&) { throw InvalidArgument("no, said the hook"); }}});
  const Tensor loss = mean(model(randn({4, 6}).to(model.device())));
  EXPECT_NE(thrown<InvalidArgument>([&] { loss.backward(); }).find("no, said the hook"), std::string::npos);
}

TEST(CommHook, ThatThrowsInOneProcessEndsTheOthers) {
  const SimulatedDevices devices({.count = 2});
  const auto failures = testing::in_processes(2, [&](const World& world) {
    const bool fails = world.rank().value() == 1;
    trained(
        [fails](ReducingBucket& bucket) {
          if (fails) throw InvalidArgument("no, said the hook");
          bucket.all_reduce(bucket.buffers());
        },
        world, 1);
  });
  EXPECT_NE(testing::message_of<InvalidArgument>(failures[1]).find("no, said the hook"), std::string::npos);
  const std::string other = testing::message_of<CollectiveError>(failures[0]);
  EXPECT_NE(other.find("a comm_hook failed in process 1"), std::string::npos) << other;
}

TEST(CommHook, IsRefusedWithShardedState) {
  const SimulatedDevices devices({.count = 2});
  const DataParallelOptions options{.buckets = {.comm_hook = bfloat16_compress_hook}, .shard = Shard::optimizer_state};
  const std::string message = thrown<InvalidArgument>([&] {
    DataParallel model(Net(), options);
    model(randn({4, 6}).to(model.device()));
  });
  EXPECT_NE(message.find(".shard"), std::string::npos) << message;
}

}  // namespace
}  // namespace lockstep::comm_hook
