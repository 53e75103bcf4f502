// Gradients and steps of a DataParallel, piece by piece; invariance_test.cpp has whole runs.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include <lockstep/autograd/autograd.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/runtime/trace.h>

#include "parallel/blocking_model.h"
#include "parallel/expect_close.h"
#include "parallel/mlp_job.h"
#include "support/replicas.h"
#include "support/test_devices.h"

namespace lockstep::training {
namespace {

using testing::BlockingModel;
using testing::count_all_reduces;

// Weights used twice, a branch that only some batches take, and one that none takes.
struct Net : nn::Module<Net> {
  nn::Linear first, shared, last, sometimes, never;
  explicit Net(DType dtype = kFloat64)
      : first(5, 8, {.tensor = {.dtype = dtype}}),
        shared(8, 8, {.tensor = {.dtype = dtype}}),
        last(8, 1, {.tensor = {.dtype = dtype}}),
        sometimes(8, 8, {.tensor = {.dtype = dtype}}),
        never(8, 8, {.tensor = {.dtype = dtype}}) {}
  auto members() {
    return nn::members("first", first, "shared", shared, "last", last, "sometimes", sometimes, "never", never);
  }
  Tensor forward(const Tensor& x, bool branch) {
    Tensor h = relu(first(x));
    h = relu(shared(relu(shared(h))));
    if (branch) h = h + sometimes(h);
    return last(h);
  }
};

std::vector<double> flat(const std::vector<Tensor>& parameters) {
  std::vector<double> all;
  for (const Tensor& p : parameters)
    for (const double v : p.detach().to(kFloat64).to_vector<double>()) all.push_back(v);
  return all;
}

void expect_replicas_identical(nn::ModuleBase& module) {
  for (const auto& [name, parameter] : module.named_parameters()) {
    const std::vector<double> primary = flat({parameter});
    for (const Tensor& replica : testing::other_replicas(parameter)) ASSERT_EQ(flat({replica}), primary) << name;
  }
}

// The sum over the batch, so that gradients of shards of any sizes add up.
Tensor loss_of(const Tensor& output) { return sum(output * output) * 0.01; }

template <class Model, class Optimizer>
std::vector<double> train(Model& model, Optimizer& optimizer, const std::vector<Tensor>& batches, Device device) {
  for (std::size_t step = 0; step < batches.size(); ++step) {
    optimizer.zero_grad();
    loss_of(model(batches[step].to(device), step % 3 == 0)).backward();
    optimizer.step();
  }
  return flat(model.parameters());
}

TEST(TrainingInLockstep, TwoRunsAreBitIdenticalWhateverTheTiming) {
  std::vector<double> first;
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
    SimulatedDevices devices({.count = 3, .seed = seed, .max_delay_us = seed ? 50 : 0});
    manual_seed(5);
    DataParallel model(Net(kFloat32), {.buckets = {.first_bytes = 256, .bytes = 512}});
    optim::Adam optimizer(model.parameters(), {.lr = 0.01});
    std::vector<Tensor> batches;
    for (int i = 0; i < 10; ++i) batches.push_back(randn({10, 5}));
    const std::vector<double> result = train(model, optimizer, batches, model.device());
    if (first.empty()) first = result;
    EXPECT_EQ(result, first) << "seed " << seed;
  }
}

// Compares the gradients after `run`, on one device and on three.
template <class Run>
void expect_gradients_as_on_one_device(Run&& run) {
  const TestDevices devices(3);
  manual_seed(7);
  Net net, alone = net;
  run(alone, static_cast<DataParallel<Net>*>(nullptr));
  DataParallel model(copy(net), {.buckets = {.first_bytes = 256, .bytes = 512}});
  run(model, &model);
  const auto expected = alone.named_parameters();
  const auto got = model.named_parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Tensor a = expected[i].second.grad(), b = got[i].second.grad();
    ASSERT_EQ(b.defined(), a.defined()) << expected[i].first;
    if (!a.defined()) continue;
    testing::expect_close(flat({b}), flat({a}), 1e-11, expected[i].first);
    for (const Tensor& replica : testing::other_replicas(got[i].second))
      EXPECT_EQ(flat({replica.grad()}), flat({b})) << expected[i].first;
  }
}

const Tensor& batch(int i) {
  static const std::vector<Tensor> all = {randn({10, 5}, {.dtype = kFloat64}), randn({4, 5}, {.dtype = kFloat64}),
                                          randn({1, 5}, {.dtype = kFloat64})};
  return all[std::size_t(i)];
}

TEST(Gradients, LeaveAnUnusedParameterWithoutOne) {
  expect_gradients_as_on_one_device(
      [](auto& model, DataParallel<Net>*) { loss_of(model(batch(0), false)).backward(); });
}

TEST(Gradients, AccumulateOverSeveralBackwards) {
  expect_gradients_as_on_one_device([](auto& model, DataParallel<Net>*) {
    for (int i = 0; i < 3; ++i) loss_of(model(batch(i), i == 1)).backward();
  });
}

TEST(Gradients, OfSeveralForwardsBeforeOneBackward) {
  expect_gradients_as_on_one_device([](auto& model, DataParallel<Net>*) {
    const Tensor a = model(batch(0), true), b = model(batch(2), false);
    (loss_of(a) + loss_of(b)).backward();
  });
}

TEST(Gradients, UnderNoSyncAreSummedByTheNextBackward) {
  expect_gradients_as_on_one_device([]<class M>(M& model, DataParallel<Net>* parallel) {
    loss_of(model(batch(1), false)).backward();
    {
      std::optional<DataParallel<Net>::NoSync> guard;
      if (parallel) guard.emplace(*parallel);
      loss_of(model(batch(0), true)).backward();
      loss_of(model(batch(2), false)).backward();
    }
    loss_of(model(batch(1), false)).backward();
  });
}

TEST(Gradients, SurviveAForwardWithoutRecording) {
  expect_gradients_as_on_one_device([](auto& model, DataParallel<Net>*) {
    loss_of(model(batch(0), true)).backward();
    {
      const NoGrad guard;
      model(batch(1), true);
    }
    loss_of(model(batch(0), false)).backward();
  });
}

TEST(Gradients, OfAShardedBatchAfterZeroing) {
  expect_gradients_as_on_one_device([](auto& model, DataParallel<Net>*) {
    loss_of(model(batch(0), true)).backward();
    model.zero_grad();
    loss_of(model(batch(2), false)).backward();
  });
}

TEST(Gradients, StayWhileOthersAreAskedFor) {
  const TestDevices devices(3);
  DataParallel model{Net()};
  loss_of(model(batch(0), true)).backward();
  std::vector<Tensor> everywhere;
  for (const Tensor& parameter : model.parameters()) {
    if (!parameter.grad().defined()) continue;
    everywhere.push_back(parameter.grad());
    for (const Tensor& replica : testing::other_replicas(parameter)) everywhere.push_back(replica.grad());
  }
  const std::vector<double> before = flat(everywhere);
  const Tensor loss = loss_of(model(batch(1), false));
  gradients({{loss}}, {{model.module().first.weight, model.module().last.weight}});
  EXPECT_EQ(flat(everywhere), before);
}

TEST(Gradients, ThatWereAskedForStayWhileOthersCome) {
  const TestDevices devices(3);
  DataParallel model{Net()};
  const Tensor loss = loss_of(model(batch(1), false));
  const std::vector<Tensor> asked = gradients({{loss}}, {{model.module().last.weight}});
  const std::vector<double> before = flat(asked);
  loss_of(model(batch(0), true)).backward();
  EXPECT_EQ(flat(asked), before);
}

TEST(Gradients, AreClippedByTheGlobalNorm) {
  expect_gradients_as_on_one_device([](auto& model, DataParallel<Net>*) {
    loss_of(model(batch(0), true)).backward();
    optim::clip_grad_norm_(model.parameters(), 0.01);
  });
}

TEST(TrainingInLockstep, CopiesAllocatesAndWaitsForNothingInTheSteadyState) {
  SimulatedDevices devices({.count = 4});
  DataParallel model(Net(kFloat32), {.buckets = {.first_bytes = 256, .bytes = 512}});
  optim::SGD optimizer(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  const Tensor input = randn({12, 5}, {.device = "cuda:0"});
  const auto step = [&] {
    optimizer.zero_grad();
    loss_of(model(input, true)).backward();
    optimizer.step();
  };
  for (int i = 0; i < 5; ++i) step();
  for (int d = 0; d < 4; ++d) synchronize(Device::cuda(d));
  const auto counted = [&] {
    std::uint64_t copies = 0, allocations = 0, host_waits = 0;
    for (int d = 0; d < 4; ++d) {
      copies += devices.counts(d).peer_copies;
      host_waits += devices.counts(d).host_waits;
      allocations += memory_stats(Device::cuda(d)).backend_allocations;
    }
    return std::tuple(copies, allocations, host_waits);
  };
  const auto before = counted();
  for (int i = 0; i < 20; ++i) step();
  const auto after = counted();
  // Between devices, only three shards, three outputs and three gradients of outputs are copied: no parameter.
  EXPECT_EQ(std::get<0>(after) - std::get<0>(before), 20u * 9u);
  EXPECT_EQ(std::get<1>(after), std::get<1>(before)) << "allocations";
  EXPECT_EQ(std::get<2>(after), std::get<2>(before)) << "waits of the host";
}

TEST(TrainingInLockstep, BroadcastsAParameterChangedByHandOnce) {
  SimulatedDevices devices({.count = 2});
  DataParallel model{Net(kFloat32)};
  optim::SGD optimizer(model.parameters(), {.lr = 0.01});
  const Tensor input = randn({4, 5}, {.device = "cuda:0"});
  const auto copies_of_a_step = [&] {
    const std::uint64_t before = devices.counts(0).peer_copies;
    optimizer.zero_grad();
    loss_of(model(input, true)).backward();
    optimizer.step();
    return devices.counts(0).peer_copies - before;
  };
  copies_of_a_step();
  const std::uint64_t steady = copies_of_a_step();
  {
    const NoGrad guard;
    model.module().first.weight.mul_(0.5);
  }
  EXPECT_EQ(copies_of_a_step(), steady + 1);
  EXPECT_EQ(copies_of_a_step(), steady);
  expect_replicas_identical(model);
}

TEST(TrainingInLockstep, BroadcastsALoadedStateOnce) {
  SimulatedDevices devices({.count = 4});
  DataParallel model{Net(kFloat32)};
  optim::SGD optimizer(model.parameters(), {.lr = 0.01});
  const Tensor input = randn({8, 5}, {.device = "cuda:0"});
  const auto peer_copies = [&] {
    std::uint64_t copies = 0;
    for (int d = 0; d < 4; ++d) copies += devices.counts(d).peer_copies;
    return copies;
  };
  const auto copies_of_a_forward = [&] {
    optimizer.zero_grad();
    const std::uint64_t before = peer_copies();
    const Tensor output = model(input, true);
    const std::uint64_t copies = peer_copies() - before;
    expect_replicas_identical(model);
    loss_of(output).backward();
    optimizer.step();
    return copies;
  };
  copies_of_a_forward();
  const std::uint64_t steady = copies_of_a_forward();
  model.module().load_state_dict(Net(kFloat32).state_dict());
  EXPECT_EQ(copies_of_a_forward(), steady + 3 * model.parameters().size());
  EXPECT_EQ(copies_of_a_forward(), steady);
}

// Holds a backward through eight layers before its last product until `early` all-reduces have run. That would time out
// if all-reduces waited for the end of backward.
void expect_reduced_while_backward_runs(const BucketOptions& buckets, int all, int early) {
  SimulatedDevices devices({.count = 4});
  DataParallel model(BlockingModel{}, {.buckets = buckets});
  const Tensor input = randn({16, 32}, {.device = "cuda:0"});
  // Rebuilds the buckets. As long as `first` lives, leaves keep their order in its graph.
  const Tensor first = loss_of(model(input));
  first.backward();
  model.zero_grad();
  for (const Device& device : model.devices()) synchronize(device);
  const Trace trace;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const Device first_device("cuda:0");
  BlockingModel::before_last = [&](Device) {
    while (count_all_reduces(trace, first_device) < early && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const Tensor loss = loss_of(model(input));
  loss.backward();
  BlockingModel::before_last = nullptr;
  for (const Device& device : model.devices()) synchronize(device);
  double backward_ends = 0;
  for (const TraceEvent& event : trace.events())
    if (event.name == "matmul") backward_ends = std::max(backward_ends, event.end_us);
  EXPECT_EQ(count_all_reduces(trace, first_device), all);
  EXPECT_GE(count_all_reduces(trace, first_device, backward_ends), early);
}

constexpr std::size_t kBiasBytes = BlockingModel::kBiasBytes, kLayerBytes = BlockingModel::kLayerBytes;

TEST(TrainingInLockstep, ReducesBucketsWhileBackwardRuns) {
  expect_reduced_while_backward_runs({.first_bytes = kLayerBytes, .bytes = kLayerBytes}, 8, 6);
}

// The first bucket has room for the first layer's bias, but that arrives with its weight, and would delay the bucket.
TEST(TrainingInLockstep, ABiasDoesNotHoldUpTheBucketBeforeItsWeight) {
  expect_reduced_while_backward_runs({.first_bytes = 7 * kLayerBytes + kBiasBytes}, 2, 1);
}

}  // namespace
}  // namespace lockstep::training
