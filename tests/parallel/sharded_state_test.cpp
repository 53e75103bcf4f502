// Optimizer state that devices divide: training comes out as with all of it on every device.
#include <gtest/gtest.h>

#include <algorithm>

#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/runtime/trace.h>

#include "autograd/node.h"
#include "optim/cases.h"
#include "parallel/job.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using testing::OptimizerCase;

// Parameters of one element and of sizes that no number of devices divides; a branch that only some batches take, and
// one that none takes.
struct Net : nn::Module<Net> {
  nn::Linear first, last, sometimes, never;
  explicit Net(DType dtype = kFloat32)
      : first(5, 7, {.tensor = {.dtype = dtype}}),
        last(7, 1, {.tensor = {.dtype = dtype}}),
        sometimes(7, 7, {.tensor = {.dtype = dtype}}),
        never(3, 3, {.tensor = {.dtype = dtype}}) {}
  auto members() { return nn::members("first", first, "last", last, "sometimes", sometimes, "never", never); }
  Tensor forward(const Tensor& x, bool branch) {
    Tensor h = relu(first(x));
    if (branch) h = h + sometimes(h);
    return last(h);
  }
};

DataParallelOptions options(bool shard, std::vector<int> device_ids = {}) {
  return {.device_ids = std::move(device_ids),
          .buckets = {.first_bytes = 64, .bytes = 300, .shard_optimizer_state = shard}};
}

std::vector<double> values(const Tensor& tensor) { return tensor.detach().to(kFloat64).to_vector<double>(); }

std::vector<std::vector<double>> values(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<double>> all;
  for (const Tensor& tensor : tensors) all.push_back(values(tensor));
  return all;
}

std::vector<std::vector<double>> values(const StateDict& state) {
  std::vector<std::vector<double>> all;
  for (const auto& [key, value] : state) all.push_back(values(value));
  return all;
}

std::vector<std::vector<double>> gradients(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> all;
  for (const Tensor& parameter : parameters)
    if (const Tensor gradient = parameter.grad(); gradient.defined()) all.push_back(gradient);
  return values(all);
}

void expect_close(const std::vector<std::vector<double>>& got, const std::vector<std::vector<double>>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), expected[i].size());
    for (std::size_t j = 0; j < got[i].size(); ++j)
      EXPECT_NEAR(got[i][j], expected[i][j], 1e-12 * std::max(1.0, std::abs(expected[i][j]))) << i << ", element " << j;
  }
}

void expect_replicas_identical(const std::vector<Tensor>& parameters) {
  for (const Tensor& parameter : parameters)
    for (const Tensor& replica : autograd::meta_of(parameter)->replicas) EXPECT_EQ(values(replica), values(parameter));
}

const std::vector<Tensor>& batches() {
  static const std::vector<Tensor> all = [] {
    manual_seed(11);
    std::vector<Tensor> made;
    for (const std::int64_t rows : {10, 4, 1, 7}) made.push_back(randn({rows, 5}));
    return made;
  }();
  return all;
}

Tensor loss_of(DataParallel<Net>& model, int step) {
  const Tensor& batch = batches()[std::size_t(step) % batches().size()];
  const Tensor output = model(batch.to(model.device(), model.module().first.weight.dtype()), step % 3 == 1);
  return sum(output * output) * 0.01;
}

void train(DataParallel<Net>& model, optim::Optimizer& optimizer, int from, int to) {
  for (int step = from; step < to; ++step) {
    optimizer.zero_grad();
    loss_of(model, step).backward();
    optimizer.step();
  }
}

StateDict copy_of(const StateDict& state) {
  StateDict copy;
  for (const auto& [key, value] : state) copy.add(key, value.clone());
  return copy;
}

class ShardedState : public ::testing::TestWithParam<int> {
 protected:
  SimulatedDevices devices_{{.count = GetParam(), .max_delay_us = 10}};
};

TEST_P(ShardedState, EqualsWholeStateBitForBitWithEveryOptimizer) {
  for (const OptimizerCase& which : testing::optimizer_cases()) {
    SCOPED_TRACE(which.name);
    manual_seed(3);
    const Net net;
    DataParallel whole(net, options(false)), sharded(net, options(true));
    const auto a = which.make(whole.parameters()), b = which.make(sharded.parameters());
    train(whole, *a, 0, 12);  // every batch with and without the branch
    train(sharded, *b, 0, 12);
    EXPECT_EQ(values(sharded.parameters()), values(whole.parameters()));
    EXPECT_EQ(values(b->state_dict()), values(a->state_dict()));
    expect_replicas_identical(sharded.parameters());
  }
}

TEST_P(ShardedState, EqualsWholeStateInOtherDTypes) {
  for (const DType dtype : {kFloat64, kFloat16, kBFloat16}) {
    SCOPED_TRACE(name(dtype));
    manual_seed(3);
    const Net net(dtype);
    DataParallel whole(net, options(false)), sharded(net, options(true));
    optim::AdamW a(whole.parameters(), {.lr = 0.01}), b(sharded.parameters(), {.lr = 0.01});
    train(whole, a, 0, 10);
    train(sharded, b, 0, 10);
    EXPECT_EQ(values(sharded.parameters()), values(whole.parameters()));
    expect_replicas_identical(sharded.parameters());
  }
}

TEST_P(ShardedState, WorksWithGroupsAndParametersOfNoReplicas) {
  manual_seed(3);
  const Net net;
  const auto run = [&](bool shard) {
    DataParallel model(net, options(shard));
    nn::Linear& first = model.module().first;
    std::vector<Tensor> rest;
    for (const Tensor& parameter : model.parameters())
      if (!parameter.is_same(first.weight)) rest.push_back(parameter);
    Tensor on_cpu = ones({3}).requires_grad_(), on_gpu = ones({3}, {.device = "cuda:1"}).requires_grad_();
    rest.push_back(on_cpu);
    optim::Adam optimizer({{rest, {.lr = 0.02}}, {{first.weight, on_gpu}, {.lr = 0.01}}});
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      loss_of(model, step).backward();
      sum(on_cpu * on_cpu).backward();
      sum(on_gpu * on_gpu).backward();
      optimizer.step();
    }
    std::vector<Tensor> all = model.parameters();
    all.insert(all.end(), {on_cpu, on_gpu});
    return values(all);
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_P(ShardedState, GradientsAreWholeForWhoAsks) {
  manual_seed(3);
  const Net net;
  DataParallel whole(net, options(false)), sharded(net, options(true));
  optim::SGD a(whole.parameters(), {.lr = 0.1, .momentum = 0.9}), b(sharded.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 4; ++step) {
    train(whole, a, step, step + 1);
    train(sharded, b, step, step + 1);
    EXPECT_EQ(gradients(sharded.parameters()), gradients(whole.parameters()));
    for (const Tensor& parameter : sharded.parameters())
      EXPECT_EQ(gradients(autograd::meta_of(parameter)->replicas).empty(), !parameter.grad().defined());
  }
  EXPECT_EQ(values(sharded.parameters()), values(whole.parameters()));
}

// The first two steps are on either side of the new layout of the buckets.
TEST_P(ShardedState, AccumulatesOverBackwardsWithAndWithoutSums) {
  manual_seed(3);
  const Net net(kFloat64);
  DataParallel whole(net, options(false)), sharded(net, options(true));
  optim::Adam a(whole.parameters(), {.lr = 0.01}), b(sharded.parameters(), {.lr = 0.01});
  for (int step = 0; step < 4; ++step) {
    for (auto [model, optimizer] : {std::pair(&whole, &a), std::pair(&sharded, &b)}) {
      optimizer->zero_grad(step % 2 == 0);
      loss_of(*model, step).backward();
      {
        const auto guard = model->no_sync();
        loss_of(*model, step + 2).backward();
        loss_of(*model, step + 1).backward();
      }
      for (int more = 0; more < 3; ++more) {
        loss_of(*model, step + more).backward();
        if (step == 1) gradients(model->parameters());  // which gathers them
      }
      optimizer->step();
    }
    expect_close(gradients(sharded.parameters()), gradients(whole.parameters()));
  }
  expect_close(values(sharded.parameters()), values(whole.parameters()));
  expect_replicas_identical(sharded.parameters());
}

// Of three backwards only one takes the branch: what it brought is divided anew, or summed again with its bucket.
TEST_P(ShardedState, GathersWhatAnEarlierBackwardBrought) {
  manual_seed(3);
  const Net net(kFloat64);
  for (const int branch : {0, 1})
    for (const std::size_t bytes : {300, 600}) {
      std::vector<std::vector<std::vector<double>>> got;
      for (const bool shard : {false, true}) {
        DataParallel model(net, {.buckets = {.first_bytes = 64, .bytes = bytes, .shard_optimizer_state = shard}});
        for (int i = 0; i < 3; ++i) {
          loss_of(model, 1 + i - branch).backward();
          if (i > 0) got.push_back(gradients(model.parameters()));
        }
      }
      expect_close(got[2], got[0]);
      expect_close(got[3], got[1]);
    }
}

TEST_P(ShardedState, LeavesGradientsAloneThatAreNotSummed) {
  manual_seed(3);
  const Net net(kFloat64);
  std::vector<std::vector<std::vector<double>>> got;
  for (const bool shard : {false, true}) {
    DataParallel model(net, options(shard));
    for (const int local : {0, 2}) {  // on all devices, and on the first alone
      loss_of(model, 0).backward();
      {
        const auto guard = model.no_sync();
        loss_of(model, local).backward();
      }
      for (const Tensor& parameter : model.parameters())
        for (const Tensor& replica : autograd::meta_of(parameter)->replicas) replica.grad();
      gradients(model.parameters());
      loss_of(model, 3).backward();
      got.push_back(gradients(model.parameters()));
    }
  }
  expect_close(got[2], got[0]);
  expect_close(got[3], got[1]);
}

TEST_P(ShardedState, ForgetsGradientsThatTheUserSets) {
  manual_seed(3);
  const Net net(kFloat64);
  std::vector<std::vector<std::vector<double>>> got;
  for (const bool shard : {false, true}) {
    DataParallel model(net, options(shard));
    for (const bool some : {false, true}) {
      loss_of(model, 1).backward();
      for (Tensor parameter : model.parameters()) parameter.set_grad(some ? ones_like(parameter) : Tensor());
      loss_of(model, 1).backward();
      got.push_back(gradients(model.parameters()));
    }
  }
  expect_close(got[2], got[0]);
  expect_close(got[3], got[1]);
}

TEST_P(ShardedState, ClipsByTheNormOfAllShares) {
  for (const double p : {2., 1., std::numeric_limits<double>::infinity()}) {
    manual_seed(3);
    const Net net(kFloat64);
    DataParallel whole(net, options(false)), sharded(net, options(true));
    optim::SGD a(whole.parameters(), {.lr = 0.1}), b(sharded.parameters(), {.lr = 0.1});
    for (int step = 0; step < 4; ++step) {
      std::vector<double> norms;
      for (auto [model, optimizer] : {std::pair(&whole, &a), std::pair(&sharded, &b)}) {
        optimizer->zero_grad();
        loss_of(*model, step).backward();
        norms.push_back(optim::clip_grad_norm_(model->parameters(), 0.01, {.norm_type = p}).item<double>());
      }
      EXPECT_NEAR(norms[1], norms[0], 1e-13 * norms[0]);
      expect_close(gradients(sharded.parameters()), gradients(whole.parameters()));
      a.step();
      b.step();
    }
    expect_close(values(sharded.parameters()), values(whole.parameters()));
    expect_replicas_identical(sharded.parameters());
  }
}

TEST_P(ShardedState, ClipsEveryElementOfGradientsThatWereGathered) {
  manual_seed(3);
  const Net net;
  DataParallel whole(net, options(false)), sharded(net, options(true));
  for (DataParallel<Net>* model : {&whole, &sharded}) {
    loss_of(*model, 0).backward();
    gradients(model->parameters());
    optim::clip_grad_value_(model->parameters(), 0.001);
  }
  EXPECT_EQ(gradients(sharded.parameters()), gradients(whole.parameters()));
}

TEST_P(ShardedState, CheckpointsAreThoseOfWholeState) {
  for (const bool from_sharded : {false, true}) {
    manual_seed(3);
    const Net net;
    DataParallel trained(net, options(from_sharded)), resumed(net, options(!from_sharded));
    optim::Adam a(trained.parameters(), {.amsgrad = true}), b(resumed.parameters(), {.amsgrad = true});
    train(trained, a, 0, 5);
    train(resumed, b, 0, 2);
    const StateDict model = copy_of(trained.state_dict()), state = copy_of(a.state_dict());
    resumed.load_state_dict(model);
    b.load_state_dict(state);
    EXPECT_EQ(values(b.state_dict()), values(state));
    train(trained, a, 5, 12);
    train(resumed, b, 5, 12);
    EXPECT_EQ(values(resumed.parameters()), values(trained.parameters()));
    EXPECT_EQ(values(b.state_dict()), values(a.state_dict()));
  }
}

TEST_P(ShardedState, CheckpointsFitAnyNumberOfDevices) {
  manual_seed(3);
  const Net net;
  DataParallel model(net, options(true));
  optim::AdamW optimizer(model.parameters(), {});
  train(model, optimizer, 0, 5);
  const StateDict state = optimizer.state_dict();
  for (int count = 1; count <= GetParam(); ++count) {
    std::vector<int> ids;
    for (int d = 0; d < count; ++d) ids.push_back(d);
    DataParallel other(net, options(true, ids));
    optim::AdamW taker(other.parameters(), {});
    taker.load_state_dict(state);
    train(other, taker, 0, 0);
    EXPECT_EQ(values(taker.state_dict()), values(state)) << count;
    train(other, taker, 0, 2);
  }
}

TEST_P(ShardedState, ComesTogetherWhenTheReplicasGo) {
  manual_seed(3);
  const Net net;
  std::vector<std::vector<std::vector<double>>> results;
  for (const bool shard : {false, true}) {
    std::optional<DataParallel<Net>> model(std::in_place, net, options(shard));
    Net alone = net;
    optim::Adam optimizer(model->parameters(), {});
    train(*model, optimizer, 0, 3);
    optimizer.zero_grad();
    loss_of(*model, 3).backward();
    const std::vector<Tensor> parameters = model->parameters();
    model.reset();
    optimizer.step();
    results.push_back(values(parameters));
    results.push_back(values(optimizer.state_dict()));
  }
  EXPECT_EQ(results[2], results[0]);
  EXPECT_EQ(results[3], results[1]);
}

TEST_P(ShardedState, RefusesAParameterThatLeftItsDevice) {
  DataParallel model(Net(), options(true));
  optim::Adam optimizer(model.parameters(), {});
  train(model, optimizer, 0, 2);
  const auto before = values(model.parameters());
  model.module().to("cpu");
  EXPECT_THROW(optimizer.step(), InvalidArgument);
  EXPECT_EQ(values(model.parameters()), before);
}

struct Wide : nn::Module<Wide> {
  nn::Linear layer{255, 301};
  auto members() { return nn::members("layer", layer); }
  Tensor forward(const Tensor& x) { return layer(x); }
};

TEST_P(ShardedState, TakesItsPartOfTheMemory) {
  const auto state_bytes = [&](bool shard) {
    DataParallel model(Wide(), {.buckets = {.shard_optimizer_state = shard}});
    optim::Adam optimizer(model.parameters(), {});
    sum(model(randn({8, 255}, {.device = "cuda:0"}))).backward();
    for (const Device& device : model.devices()) synchronize(device);
    const std::vector<std::size_t> before = testing::memory_in_use(GetParam());
    optimizer.step();
    for (const Device& device : model.devices()) synchronize(device);
    std::vector<std::size_t> bytes = testing::memory_in_use(GetParam());
    for (std::size_t d = 0; d < bytes.size(); ++d) bytes[d] -= before[d];
    return bytes;
  };
  const std::size_t all = 2 * (255 * 301 + 301) * sizeof(float), rounding = 2 * 512;
  for (const std::size_t bytes : state_bytes(false)) EXPECT_GE(bytes, all);
  for (const std::size_t bytes : state_bytes(true)) EXPECT_LE(bytes, all / std::size_t(GetParam()) + rounding);
}

TEST_P(ShardedState, NeitherAllocatesNorCopiesNorWaitsInTheSteadyState) {
  DataParallel model(Net(), options(true));
  optim::Adam optimizer(model.parameters(), {});
  const Tensor input = randn({10, 5}, {.device = "cuda:0"});
  const auto step = [&] {
    optimizer.zero_grad();
    sum(model(input, true)).backward();
    optim::clip_grad_value_(model.parameters(), 1);
    optimizer.step();
  };
  const auto counted = [&] {
    std::uint64_t copies = 0, host_waits = 0, allocations = 0;
    for (int d = 0; d < GetParam(); ++d) {
      copies += devices_.counts(d).peer_copies;
      host_waits += devices_.counts(d).host_waits;
      allocations += memory_stats(Device::cuda(d)).backend_allocations;
    }
    return std::tuple(copies, host_waits, allocations);
  };
  for (int i = 0; i < 5; ++i) step();
  for (const Device& device : model.devices()) synchronize(device);
  const auto before = counted();
  for (int i = 0; i < 10; ++i) step();
  const auto after = counted();
  const auto sent = 10u * 3u * std::uint64_t(GetParam() - 1);  // shards, outputs and their gradients: no parameter
  EXPECT_EQ(std::get<0>(after) - std::get<0>(before), sent);
  EXPECT_EQ(std::get<1>(after), std::get<1>(before)) << "waits of the host";
  EXPECT_EQ(std::get<2>(after), std::get<2>(before)) << "allocations";
}

TEST_P(ShardedState, ReduceScattersEachBucketAndSendsParametersOnce) {
  DataParallel model(Net(), options(true));
  optim::Adam optimizer(model.parameters(), {});
  train(model, optimizer, 0, 3);
  optimizer.zero_grad();
  const Tensor loss = loss_of(model, 4);
  for (const Device& device : model.devices()) synchronize(device);
  const Trace trace;
  loss.backward();
  optimizer.step();
  for (const Device& device : model.devices()) synchronize(device);
  std::vector<std::string> collectives;
  for (const TraceEvent& event : trace.events())
    for (const char* kind : {"all_reduce", "reduce_scatter", "all_gather", "send_receive"})
      if (event.name == kind && event.device == model.device()) collectives.push_back(event.name);
  ASSERT_GT(collectives.size(), 2u);
  EXPECT_EQ(std::count(collectives.begin(), collectives.end(), "reduce_scatter"),
            std::ptrdiff_t(collectives.size() - 1));
  EXPECT_EQ(std::count(collectives.begin(), collectives.end(), "send_receive"), 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, ShardedState, ::testing::Values(2, 3, 5));

TEST(ShardedStateAlone, IsWholeOnOneDevice) {
  const TestDevices devices(1);
  manual_seed(3);
  const Net net;
  DataParallel whole(net, options(false)), sharded(net, options(true));
  optim::Adam a(whole.parameters(), {}), b(sharded.parameters(), {});
  train(whole, a, 0, 5);
  train(sharded, b, 0, 5);
  EXPECT_EQ(values(sharded.parameters()), values(whole.parameters()));
}

}  // namespace
}  // namespace lockstep
