// Batch norm in replicas, synchronized or of each shard; and the collectives and buffers of replicas.
#include <lockstep/parallel/sync_batch_norm.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/batch_shard.h>

#include "parallel/mlp_job.h"
#include "support/must_end.h"
#include "support/test_devices.h"

namespace lockstep::sync_batch_norm_test {
namespace {

std::vector<double> values(const Tensor& tensor) { return tensor.detach().to(kFloat64).to_vector<double>(); }

void expect_close(const Tensor& got, const Tensor& expected, const char* what) {
  const std::vector<double> a = values(got), b = values(expected);
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-12) << what << ", element " << i;
}

template <class Norm>
struct Net : nn::Module<Net<Norm>> {
  Norm norm;
  Net() : norm(3, {.tensor = {.dtype = kFloat64}}) {
    normal_(*norm.weight.operator->(), 1, 1);
    normal_(*norm.bias.operator->(), 0, 1);
  }
  auto members() { return nn::members("norm", norm); }
  Tensor forward(const Tensor& x) { return norm(x); }
};
using SyncNet = Net<nn::SyncBatchNorm>;

TEST(SyncBatchNorm, IsBatchNormOfTheWholeBatch) {
  const TestDevices devices(3);
  manual_seed(1);
  for (const Shape& sizes : {Shape{10, 3}, Shape{4, 3, 5}, Shape{1, 3, 2}}) {
    for (const std::vector<double>& weights : {std::vector<double>{}, {1, 0, 2}}) {
      SyncNet net;
      Net<nn::BatchNorm1d> alone;
      alone.load_state_dict(net.state_dict());
      DataParallel model(copy(net), {.scatter = {.weights = weights}});
      const Tensor x = randn(sizes, {.dtype = kFloat64}), seed = randn(sizes, {.dtype = kFloat64});
      const Tensor a = x.clone().requires_grad_(), b = x.to("cuda:0").requires_grad_();
      const Tensor expected = alone(a), got = model(b);
      expect_close(got, expected, "output");
      expected.backward(seed);
      got.backward(seed.to("cuda:0"));
      expect_close(b.grad(), a.grad(), "gradient");
      for (const auto& [name, tensor] : alone.state_dict())
        expect_close(*model.module().state_dict().find(name), tensor, name.c_str());
      for (std::size_t i = 0; i < 2; ++i)
        expect_close(model.parameters()[i].grad(), alone.parameters()[i].grad(), "gradient of a parameter");
    }
  }
}

TEST(SyncBatchNorm, IsNotCopiedUnasked) {
  EXPECT_FALSE((std::is_convertible_v<nn::SyncBatchNorm&, nn::SyncBatchNorm>));
  EXPECT_TRUE((std::is_constructible_v<nn::SyncBatchNorm, nn::SyncBatchNorm&>));
}

TEST(SyncBatchNorm, HasGradientsOfGradients) {
  const TestDevices devices(3);
  manual_seed(1);
  SyncNet net;
  SyncNet alone = net;
  DataParallel model(copy(net));
  const Tensor x = randn({7, 3}, {.dtype = kFloat64});
  const auto penalty = [](auto& f, Tensor input) {
    input.requires_grad_();
    const Tensor y = f(input);
    const Tensor g = gradients({{sum(y * y * y)}}, {{input}}, {}, {.create_graph = true})[0];
    sum(g * g).backward();
    return input.grad();
  };
  expect_close(penalty(model, x.to("cuda:0")), penalty(alone, x.clone()), "gradient of the penalty");
}

TEST(SyncBatchNorm, NormalizesByRunningStatisticsInEvaluation) {
  const TestDevices devices(2);
  SyncNet net;
  SyncNet alone = net;
  DataParallel model(copy(net));
  model.eval();
  alone.eval();
  const Tensor x = randn({5, 3}, {.dtype = kFloat64});
  expect_close(model(x.to("cuda:0")), alone(x), "output");
  EXPECT_EQ(model.module().norm.num_batches_tracked->item<int>(), 0);
}

TEST(SyncBatchNorm, RefusesABatchOfOneElement) {
  const TestDevices devices(2);
  DataParallel model{SyncNet()};
  EXPECT_THROW(model(randn({1, 3}, {.dtype = kFloat64, .device = "cuda:0"})), ShapeError);
  EXPECT_THROW(model(randn({4, 2}, {.dtype = kFloat64, .device = "cuda:0"})), ShapeError);
  model(randn({2, 3}, {.dtype = kFloat64, .device = "cuda:0"}));
}

TEST(SyncBatchNorm, WorksOnAnotherStreamThanTheDefaultOne) {
  SimulatedDevices devices({.count = 3, .seed = 1, .max_delay_us = 50});
  DataParallel model{SyncNet()};
  const Tensor x = randn({6, 3}, {.dtype = kFloat64, .device = "cuda:0", .requires_grad = true});
  for (int d = 0; d < 3; ++d) synchronize(Device::cuda(d));
  std::vector<Stream> streams;
  std::vector<std::unique_ptr<StreamGuard>> guards;
  for (int d = 0; d < 3; ++d) {
    streams.push_back(Stream::from_pool(Device::cuda(d)));
    guards.push_back(std::make_unique<StreamGuard>(streams.back()));
  }
  const Tensor y = model(x);
  guards.clear();
  for (const Stream& stream : streams) Stream::default_stream(stream.device()).wait(stream.record());
  sum(y).backward();
  for (int d = 0; d < 3; ++d) EXPECT_NO_THROW(synchronize(Device::cuda(d)));
}

TEST(SyncBatchNorm, CopiesNoStatisticsBetweenPasses) {
  SimulatedDevices devices({.count = 2});
  DataParallel model{SyncNet()};
  const Tensor x = randn({4, 3}, {.dtype = kFloat64, .device = "cuda:0"});
  model(x);
  const std::uint64_t before = devices.counts(0).peer_copies;
  model(x);
  EXPECT_EQ(devices.counts(0).peer_copies - before, 1u) << "the shard; the output leaves cuda:1";
}

TEST(BatchNorm, CopiesNoStatisticsBetweenPasses) {
  SimulatedDevices devices({.count = 2});
  DataParallel model{Net<nn::BatchNorm1d>()};
  const Tensor x = randn({4, 3}, {.dtype = kFloat64, .device = "cuda:0"});
  model(x);
  const auto copies = [&] {
    const std::uint64_t before = devices.counts(0).peer_copies;
    model(x);
    return devices.counts(0).peer_copies - before;
  };
  const std::uint64_t second = copies();
  EXPECT_EQ(copies(), second);
  EXPECT_LE(second, 2u) << "the shard, and the count of batches, which is the primary's";
}

TEST(BatchNorm, KeepsTheMeanOfTheReplicasStatistics) {
  const TestDevices devices(3);
  manual_seed(1);
  const Net<nn::BatchNorm1d> net;
  DataParallel model(copy(net));
  std::vector<Net<nn::BatchNorm1d>> alone(3, net);
  const Tensor x = randn({10, 3}, {.dtype = kFloat64});
  // Batches of 10 run three replicas, batches of 4 only two: then the third one gets the statistics of the others.
  for (const std::int64_t rows : {10, 4, 10}) {
    model(x.narrow(0, 0, rows).to("cuda:0"));
    const std::vector<std::int64_t> shards = shard_sizes(rows, 3, {});
    std::vector<Tensor> means, variances;
    std::int64_t from = 0;
    for (std::size_t i = 0; i < shards.size(); from += shards[i++]) {
      alone[i](x.narrow(0, from, shards[i]));
      means.push_back(*alone[i].norm.running_mean);
      variances.push_back(*alone[i].norm.running_var);
    }
    const Tensor expected_mean = mean(stack(means), {0}).clone(),
                 expected_variance = mean(stack(variances), {0}).clone();
    for (auto& each : alone) {
      each.norm.running_mean->copy_(expected_mean);
      each.norm.running_var->copy_(expected_variance);
    }
    expect_close(*model.module().norm.running_mean, expected_mean, "mean");
    expect_close(*model.module().norm.running_var, expected_variance, "variance");
  }
  EXPECT_EQ(model.module().norm.num_batches_tracked->item<int>(), 3);
}

struct Counter : nn::Module<Counter> {
  nn::Buffer count{zeros({}, {.dtype = kInt64}), nn::BufferSync::mean};
  auto members() { return nn::members("count", count); }
  Tensor forward(const Tensor& x) { return x; }
};

TEST(Buffers, ThatBecomeMeansAreFloating) {
  const TestDevices devices(2);
  EXPECT_THROW(DataParallel{Counter()}, DTypeError);
}

struct Scaled : nn::Module<Scaled> {
  nn::Buffer scale{ones({1}), nn::BufferSync::equal};
  auto members() { return nn::members("scale", scale); }
  Tensor forward(const Tensor& x) { return x * scale; }
};

// The new buffer may have changed as often as the old one.
TEST(Buffers, ThatAreEqualEverywhereAreSentWhenAnotherTakesTheirPlace) {
  const TestDevices devices(3);
  DataParallel model{Scaled()};
  const Tensor x = ones({3}, {.device = "cuda:0"});
  EXPECT_EQ(model(x).to(Device()).to_vector<float>(), (std::vector<float>{1, 1, 1}));
  float number = 1;
  for (const int changes : {1, 1, 2, 2, 0, 0}) {
    Tensor value = full({1}, ++number, {.device = "cuda:0"});
    for (int i = 0; i < changes; ++i) value.add_(0);
    model.module().scale = nn::Buffer(value, nn::BufferSync::equal);
    EXPECT_EQ(model(x).to(Device()).to_vector<float>(), std::vector<float>(3, number)) << changes;
  }
}

// Runs `job` in a pass over all visible devices.
template <class Job>
void run_on_all(const Job& job) {
  run_replicas(try_all_gpus(), job);
}

TEST(ReplicaGroup, GivesTheCauseWhenAReplicaFailsWhileOthersWait) {
  const TestDevices devices(3);
  try {
    run_on_all([](std::size_t i) {
      if (i == 1) throw OutOfMemory("cuda:1", {});
      sum_over_replicas(std::int64_t(i));
    });
    FAIL() << "no error";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("in replica 1 on cuda:1"), std::string::npos) << error.what();
    EXPECT_EQ(error.attached().size(), 2u);
  }
}

TEST(ReplicaGroup, DoesNotWaitForAReplicaThatHasEnded) {
  const TestDevices devices(3);
  EXPECT_THROW(run_on_all([](std::size_t i) {
                 if (i != 2) sum_over_replicas(std::int64_t(1));
               }),
               CollectiveError);
}

TEST(ReplicaGroup, RefusesTensorsThatDiffer) {
  const TestDevices devices(2);
  const auto device = [](std::size_t i) { return Device::cuda(int(i)); };
  EXPECT_THROW(
      run_on_all([&](std::size_t i) { sum_over_replicas(ones({std::int64_t(i) + 1}, {.device = device(i)})); }),
      ShapeError);
  EXPECT_THROW(run_on_all([&](std::size_t i) {
                 sum_over_replicas(ones({1}, {.dtype = i ? kFloat32 : kFloat64, .device = device(i)}));
               }),
               DTypeError);
  EXPECT_THROW(run_on_all([&](std::size_t i) {
                 i ? void(sum_over_replicas(std::int64_t(1)))
                   : void(sum_over_replicas(ones({1}, {.device = device(i)})));
               }),
               InvalidArgument);
  EXPECT_THROW(run_on_all([&](std::size_t) { sum_over_replicas(ones({1})); }), DeviceMismatch);
  run_on_all([&](std::size_t i) {
    EXPECT_EQ(sum_over_replicas(ones({1}, {.device = device(i)})).item<int>(), 2);
    EXPECT_EQ(sum_over_replicas(std::int64_t(i)), 1);
  });
}

TEST(ReplicaGroup, SumsTheGradientsOfReplicasThatHaveOne) {
  const TestDevices devices(2);
  std::vector<Tensor> x(2), y(2);
  run_on_all([&](std::size_t i) {
    x[i] = ones({2}, {.device = Device::cuda(int(i)), .requires_grad = true});
    y[i] = sum_over_replicas(x[i]);
  });
  sum(y[0]).backward();
  for (const Tensor& each : x) EXPECT_EQ(values(each.grad()), (std::vector<double>{1, 1}));
}

TEST(ReplicaGroup, SumsOnTheStreamsThatReplicasHaveChosen) {
  const TestDevices devices(2);
  run_on_all([&](std::size_t i) {
    const Device device = Device::cuda(int(i));
    const StreamGuard on(Stream::from_pool(device));
    EXPECT_EQ(values(sum_over_replicas(full({2}, double(i + 1), {.device = device}))), (std::vector<double>{3, 3}));
  });
}

TEST(ReplicaGroup, LetsTwoThreadsPassOverTheSameDevices) {
  SimulatedDevices devices({.count = 3, .seed = 1, .max_delay_us = 20});
  const auto many_passes = [] {
    DataParallel model{SyncNet()};
    const Tensor x = randn({6, 3}, {.dtype = kFloat64, .device = "cuda:0", .requires_grad = true});
    for (int i = 0; i < 50; ++i) sum(model(x)).backward();
  };
  std::thread other(many_passes);
  many_passes();
  other.join();
}

// If the jobs of two callers were queued in different orders on two devices, they would wait for each other forever.
TEST(ReplicaGroup, LetsTwoThreadsMeetOnTheSameDevices) {
  const TestDevices devices(3);
  const auto many_passes = [] {
    for (int i = 0; i < 2000; ++i) run_on_all([](std::size_t) { sum_over_replicas(std::int64_t(1)); });
  };
  testing::must_end({many_passes, many_passes});
}

// A caller that reserved only some of its devices has to release them.
TEST(ReplicaGroup, LetsTwoThreadsMeetWhereTheirDevicesOverlap) {
  const TestDevices devices(3);
  const auto many_passes = [](const std::vector<Device>& on) {
    return [on] {
      for (int i = 0; i < 1000; ++i) run_replicas(on, [](std::size_t) { sum_over_replicas(std::int64_t(1)); });
    };
  };
  testing::must_end({many_passes({"cuda:0", "cuda:1"}), many_passes({"cuda:1", "cuda:2"})});
}

TEST(Replicas, DrawWhatTheCallerWouldDrawForTheBatch) {
  const TestDevices devices(3);
  manual_seed(5);
  const GeneratorState first = draw_for_batch(), second = draw_for_batch();
  const GeneratorState after = current_generator();
  manual_seed(5);
  run_on_all([&](std::size_t) {
    EXPECT_EQ(draw_for_batch(), first);
    EXPECT_EQ(draw_for_batch(), second);
  });
  EXPECT_EQ(current_generator(), after);
}

struct Tally : nn::Module<Tally> {
  nn::Buffer seen;
  bool fails = false;
  explicit Tally(nn::BufferSync sync) : seen(zeros({1}), sync) {}
  auto members() { return nn::members("seen", seen, "fails", fails); }
  Tensor forward(const Tensor& x) {
    if (fails && x.device() == Device("cuda:0")) throw std::runtime_error("before the change");
    seen.add_(1);
    return x * seen;
  }
};

TEST(Buffers, AreThePrimarysAfterAPassThatChangedOthers) {
  const TestDevices devices(2);
  const Tensor x = ones({2}, {.device = "cuda:0"});
  for (const auto sync : {nn::BufferSync::equal, nn::BufferSync::mean, nn::BufferSync::primary}) {
    DataParallel model{Tally(sync)};
    EXPECT_EQ(values(model(x)), (std::vector<double>{1, 1}));
    model.module().fails = true;
    EXPECT_THROW(model(x), std::runtime_error);
    model.module().fails = false;
    EXPECT_EQ(values(model(x)), (std::vector<double>{2, 2}));
    model.module().fails = true;
    EXPECT_THROW(model(x), std::runtime_error);
    model.module().fails = false;
    model.module().seen.fill_(7);  // once, as often as the replica's changed
    EXPECT_EQ(values(model(x)), (std::vector<double>{8, 8}));
  }
}

struct CountsOnAReplica : nn::Module<CountsOnAReplica> {
  nn::Buffer seen{ones({1}), nn::BufferSync::primary};
  auto members() { return nn::members("seen", seen); }
  Tensor forward(const Tensor& x) {
    const Tensor y = x * seen;
    if (x.device() == Device("cuda:1")) seen.add_(1);
    return y;
  }
};

TEST(Buffers, AreThePrimarysAfterAPassInWhichAReplicaAloneChangedIts) {
  const TestDevices devices(2);
  DataParallel model{CountsOnAReplica()};
  const Tensor x = ones({2}, {.device = "cuda:0"});
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(values(model(x)), (std::vector<double>{1, 1})) << pass;
}

struct ScalesOnAReplica : nn::Module<ScalesOnAReplica> {
  nn::Buffer scale{ones({1}), nn::BufferSync::primary};
  auto members() { return nn::members("scale", scale); }
  Tensor forward(const Tensor& x) { return x.device() == Device("cuda:1") ? x * scale : x * 1.; }
};

// As on one device, where backward throws too.
TEST(Buffers, WhoseValueAReplicasBackwardNeedsMayNotChange) {
  const TestDevices devices(2);
  DataParallel model{ScalesOnAReplica()};
  const Tensor x = ones({2}, {.device = "cuda:0"}).requires_grad_();
  const Tensor before = sum(model(x));
  model.module().scale.fill_(3);
  const Tensor after = sum(model(x));
  EXPECT_THROW(before.backward(), AutogradError);
  after.backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{1, 3}));
}

TEST(Replicas, DrawNumbersOfTheirOwnInEachPass) {
  const TestDevices devices(2);
  std::vector<double> drawn[2];
  for (int pass = 0; pass < 3; ++pass)
    run_on_all([&](std::size_t i) {
      const Tensor numbers = rand({9}, {.dtype = kFloat64});
      for (const double x : values(numbers)) drawn[i].push_back(x);
    });
  for (const double x : values(rand({9}, {.dtype = kFloat64}))) drawn[0].push_back(x);
  drawn[0].insert(drawn[0].end(), drawn[1].begin(), drawn[1].end());
  std::sort(drawn[0].begin(), drawn[0].end());
  EXPECT_EQ(std::unique(drawn[0].begin(), drawn[0].end()), drawn[0].end());
  EXPECT_EQ(drawn[0].size(), 63u);
}

}  // namespace
}  // namespace lockstep::sync_batch_norm_test
