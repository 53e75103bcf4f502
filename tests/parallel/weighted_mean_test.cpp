// A WeightedMean equals that of the whole batch on any grid: the parts of replicas and processes are joined by their
// weights. The oracle is the module on one CPU with all rows.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/losses.h>
#include <lockstep/ops/loss.h>
#include <lockstep/ops/weighted_mean.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/sgd.h>

#include "parallel/mlp_job.h"
#include "support/in_processes.h"
#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep::weighted_means {
namespace {

using testing::floats;
using testing::in_processes;

constexpr std::int64_t kPadding = 0;

struct Grid {
  int processes, devices;
};
constexpr Grid kGrids[] = {{1, 1}, {1, 2}, {1, 3}, {1, 5}, {2, 1}, {2, 2}, {3, 1}};

// Outputs the mean and the tensor that it was computed from.
struct Tagger : nn::Module<Tagger> {
  nn::Linear net{3, 4};
  auto members() { return nn::members("net", net); }
  std::tuple<Tensor, WeightedMean> forward(const Tensor& x, const Tensor& tags) {
    const Tensor y = net(x);
    return {y, mean_cross_entropy(y, tags, {.ignore_index = kPadding})};
  }
};

// Nine rows. The first four are padding, and so are some whole shards, and all rows of process 0 of three or more.
struct Batch {
  Tensor x, tags = tensor({0, 0, 0, 0, 3, 1, 0, 2, 1});
  Batch() {
    manual_seed(2);
    x = randn({9, 3});
  }
};

struct Result {
  double value = 0;  // joined by rows if there are several processes
  std::vector<float> gradient;
};

Result on_one_cpu(const Tagger& tagger, const Batch& batch) {
  Tagger net(tagger);
  const Tensor loss = cross_entropy(net.net(batch.x), batch.tags, {.ignore_index = kPadding});
  loss.backward();
  return {loss.item<double>(), floats(net.net.weight.grad())};
}

void expect_close(const Result& got, const Result& expected) {
  EXPECT_NEAR(got.value, expected.value, 1e-6);
  ASSERT_EQ(got.gradient.size(), expected.gradient.size());
  for (std::size_t i = 0; i < got.gradient.size(); ++i) EXPECT_NEAR(got.gradient[i], expected.gradient[i], 1e-6) << i;
}

DeviceIds devices_of(const World& world, int each) {
  DeviceIds ids;
  for (int d = 0; d < each; ++d) ids.push_back(world.rank().value() * each + d);
  return ids;
}

enum class Where { in_the_model, of_its_outputs };

// Computes the result in every process, of its own rows.
std::vector<Result> on_grid(const Grid& grid, const Tagger& tagger, const Batch& batch, Where where, ProcessLoss kind,
                            Gather gather = Gather::concatenate) {
  const SimulatedDevices devices({.count = grid.processes * grid.devices});
  std::vector<Result> results(std::size_t(grid.processes));
  double value = 0;
  std::mutex mutex;
  const auto failures = in_processes(grid.processes, [&](const World& world) {
    DataParallel model(copy(tagger),
                       {.device_ids = devices_of(world, grid.devices), .gather = gather, .world = world, .loss = kind});
    const auto [first, count] = model.share().rows(9);
    const Tensor x = batch.x.narrow(0, first, count), tags = batch.tags.narrow(0, first, count).to(model.device());
    auto [y, mean] = model(x, tags);
    EXPECT_EQ(mean.weight.item<double>(), 4) << "of the whole batch";
    if (where == Where::of_its_outputs)
      mean = model.over_processes(mean_cross_entropy(y, tags, {.ignore_index = kPadding}));
    const Tensor loss = mean.value();
    EXPECT_EQ(loss.sizes(), Shape());
    loss.backward();
    const std::scoped_lock lock(mutex);
    value += loss.item<double>() * (kind == ProcessLoss::sum ? 1 : double(count) / 9);
    results[std::size_t(world.rank().value())].gradient = floats(model.module().net.weight.grad());
  });
  for (const std::exception_ptr& failure : failures) EXPECT_FALSE(failure) << testing::message_of<Error>(failure);
  for (Result& result : results) result.value = value;
  return results;
}

class OnGrids : public ::testing::TestWithParam<Grid> {};

TEST_P(OnGrids, AMeanIsThatOfAllThatCountsWhereverItIsComputed) {
  const Batch batch;
  const Tagger tagger;
  const Result expected = on_one_cpu(tagger, batch);
  for (const Where where : {Where::in_the_model, Where::of_its_outputs})
    for (const ProcessLoss kind : {ProcessLoss::mean, ProcessLoss::sum})
      for (const Result& result : on_grid(GetParam(), tagger, batch, where, kind)) {
        SCOPED_TRACE(std::to_string(int(where)) + " with ProcessLoss " + std::to_string(int(kind)));
        expect_close(result, expected);
      }
}

INSTANTIATE_TEST_SUITE_P(, OnGrids, ::testing::ValuesIn(kGrids), [](const auto& of) {
  return std::to_string(of.param.processes) + "x" + std::to_string(of.param.devices);
});

struct OnlyMean : nn::Module<OnlyMean> {
  Tagger tagger;
  auto members() { return nn::members("tagger", tagger); }
  WeightedMean forward(const Tensor& x, const Tensor& tags) { return std::get<1>(tagger(x, tags)); }
};

TEST(WeightedMeans, AreAddedWhateverGatherIs) {
  const SimulatedDevices devices({.count = 3});
  const Batch batch;
  const OnlyMean module;
  const Result expected = on_one_cpu(module.tagger, batch);
  for (const Gather how : {Gather::concatenate, Gather::mean, Gather::by_ndim, Gather::sum}) {
    DataParallel model(copy(module), {.gather = how});
    const WeightedMean mean = model(batch.x, batch.tags);
    mean.value().backward();
    expect_close({mean.value().item<double>(), floats(model.module().tagger.net.weight.grad())}, expected);
  }
}

TEST(WeightedMeans, OfAllProcessesStayAsTheyAre) {
  const SimulatedDevices devices({.count = 2});
  const Batch batch;
  const auto failures = in_processes(2, [&](const World& world) {
    DataParallel model(OnlyMean(), {.device_ids = devices_of(world, 1), .world = world});
    const auto [first, count] = model.share().rows(9);
    const WeightedMean mean = model(batch.x.narrow(0, first, count), batch.tags.narrow(0, first, count));
    const WeightedMean again = model.over_processes(WeightedMean(mean.sum, mean.weight));
    EXPECT_EQ(again.value().item<float>(), mean.value().item<float>());
    EXPECT_EQ(again.weight.item<double>(), 4);
  });
  for (const std::exception_ptr& failure : failures) EXPECT_FALSE(failure) << testing::message_of<Error>(failure);
}

// Adds up the batches' sums, and divides once by their total weight.
TEST(WeightedMeans, AccumulateByHand) {
  const Batch batch;
  const OnlyMean module;
  const Result expected = on_one_cpu(module.tagger, batch);
  for (const bool sharded : {false, true}) {
    const SimulatedDevices devices({.count = 2});
    DataParallel model(copy(module), {.shard = sharded ? Shard::optimizer_state : Shard::none});
    const std::vector<Tensor> parameters = model.parameters();
    optim::SGD optimizer(parameters, {.lr = 1});
    const std::vector<float> before = floats(model.module().tagger.net.weight);
    Tensor weight;
    for (std::int64_t first : {0, 5}) {
      const std::int64_t count = first == 0 ? 5 : 4;
      const WeightedMean mean = model(batch.x.narrow(0, first, count), batch.tags.narrow(0, first, count));
      mean.sum.backward();
      weight = weight.defined() ? weight + mean.weight : Tensor(mean.weight);
    }
    optim::scale_grad_(parameters, 1 / weight);
    optimizer.step();
    const std::vector<float> after = floats(model.module().tagger.net.weight);
    for (std::size_t i = 0; i < after.size(); ++i)
      EXPECT_NEAR(before[i] - after[i], expected.gradient[i], 1e-6) << i << ' ' << sharded;
  }
}

TEST(ScaleGrad, RefusesAFactorThatIsNoNumber) {
  const Tensor w = ones({2}).requires_grad_();
  sum(w).backward();
  const std::vector<Tensor> parameters = {w};
  EXPECT_EQ(testing::thrown<ShapeError>([&] { optim::scale_grad_(parameters, ones({2})); }),
            "[scale_grad_] expected a factor of one element, got shape [2]");
  EXPECT_EQ(testing::thrown<DTypeError>([&] { optim::scale_grad_(parameters, tensor(2)); }),
            "[scale_grad_] expected a floating factor, got int64");
  optim::scale_grad_(parameters, tensor(2.));
  EXPECT_EQ(floats(w.grad()), (std::vector<float>{2, 2}));
}

}  // namespace
}  // namespace lockstep::weighted_means
