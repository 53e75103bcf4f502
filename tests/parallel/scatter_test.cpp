// Splitting a batch over devices.
#include <lockstep/parallel/scatter.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/runtime/trace.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/no_devices.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;
using Sizes = std::vector<std::int64_t>;

const std::vector<Device> kThreeDevices = {"cuda:0", "cuda:1", "cuda:2"};

TEST(ShardSizes, FollowChunk) {
  EXPECT_EQ(shard_sizes(30, 3, {}), (Sizes{10, 10, 10}));
  EXPECT_EQ(shard_sizes(10, 3, {}), (Sizes{4, 4, 2}));
  EXPECT_EQ(shard_sizes(4, 3, {}), (Sizes{2, 2}));
  EXPECT_EQ(shard_sizes(1, 7, {}), (Sizes{1}));
  EXPECT_EQ(shard_sizes(0, 3, {}), (Sizes{0}));
  for (std::int64_t rows = 1; rows < 40; ++rows)
    for (std::size_t devices = 1; devices < 18; ++devices) {
      Sizes expected;
      for (const Tensor& part : chunk(zeros({rows}), std::int64_t(devices))) expected.push_back(part.size(0));
      EXPECT_EQ(shard_sizes(rows, devices, {}), expected);
    }
}

TEST(ShardSizes, DifferByAtMostOneWhenBalanced) {
  for (std::int64_t rows = 1; rows < 40; ++rows)
    for (std::size_t devices = 1; devices < 18; ++devices) {
      const Sizes sizes = shard_sizes(rows, devices, {.split = ScatterSplit::balanced});
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t(0)), rows);
      EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()) - *std::min_element(sizes.begin(), sizes.end()), 1);
      EXPECT_EQ(sizes.size(), std::min(std::size_t(rows), devices));
    }
  EXPECT_EQ(shard_sizes(10, 3, {.split = ScatterSplit::balanced}), (Sizes{4, 3, 3}));
  EXPECT_EQ(shard_sizes(0, 3, {.split = ScatterSplit::balanced}), (Sizes{0}));
}

TEST(ShardSizes, StayWithinOneOfTheirWeightedShare) {
  const std::vector<std::vector<double>> all = {{1, 1, 1}, {2, 1, 1},      {0.7, 0.2, 0.1},
                                                {1, 0, 3}, {1e-9, 1, 1e9}, {0, 0, 1}};
  for (const auto& weights : all)
    for (std::int64_t rows = 0; rows < 50; ++rows) {
      const Sizes sizes = shard_sizes(rows, 3, {.weights = weights});
      const double total = weights[0] + weights[1] + weights[2];
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t(0)), rows);
      for (std::size_t i = 0; i < sizes.size(); ++i)
        EXPECT_LT(std::abs(double(sizes[i]) - double(rows) * weights[i] / total), 1);
      EXPECT_TRUE(sizes.size() == 1 || sizes.back() > 0);
    }
  EXPECT_EQ(shard_sizes(1, 3, {.weights = {1, 1, 1}}), (Sizes{1}));
  EXPECT_EQ(shard_sizes(6, 3, {.weights = {3, 2, 1}}), (Sizes{3, 2, 1}));
}

TEST(ShardSizesRefuse, WeightsThatMeanNothing) {
  EXPECT_EQ(thrown<InvalidArgument>([] {
              shard_sizes(4, 3, {.weights = {1, 2}});
            }),
            "[scatter] expected one weight for each of 3 devices, with a finite sum above 0, got 2 with the sum 3");
  EXPECT_THROW(shard_sizes(4, 2, {.weights = {0, 0}}), InvalidArgument);
  EXPECT_THROW(shard_sizes(4, 2, {.weights = {1, -1}}), InvalidArgument);
  EXPECT_THROW(shard_sizes(4, 2, {.weights = {1, std::nan("")}}), InvalidArgument);
  EXPECT_THROW(shard_sizes(4, 2, {.weights = {1, std::numeric_limits<double>::infinity()}}), InvalidArgument);
  EXPECT_THROW(shard_sizes(4, 2, {.weights = {1e308, 1e308}}), InvalidArgument);
  EXPECT_THROW(shard_sizes(4, 0, {}), InvalidArgument);
  EXPECT_THROW(shard_sizes(-1, 2, {}), InvalidArgument);
}

TEST(Scatter, PutsEachShardOnItsDevice) {
  const TestDevices devices(3);
  const Tensor x = arange(20, {.dtype = kFloat32}).view({10, 2});
  std::vector<std::int64_t> rows;
  const std::vector<Tensor> shards = scatter(x, kThreeDevices, {}, "input", &rows);
  EXPECT_EQ(rows, (Sizes{4, 4, 2}));
  std::vector<double> joined;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(shards[i].device(), kThreeDevices[i]);
    EXPECT_EQ(shards[i].sizes(), (Shape{rows[i], 2}));
    for (const double value : values(shards[i])) joined.push_back(value);
  }
  EXPECT_EQ(joined, values(x));
}

TEST(Scatter, SplitsAnyDimension) {
  const TestDevices devices(3);
  const Tensor x = randn({2, 7, 3});
  for (const std::int64_t dim : {1, -2}) {
    const std::vector<Tensor> shards = scatter(x, kThreeDevices, {.dim = dim, .split = ScatterSplit::balanced});
    EXPECT_EQ(shards[0].sizes(), (Shape{2, 3, 3}));
    EXPECT_EQ(values(shards[2]), values(x.narrow(1, 5, 2)));
  }
}

TEST(Scatter, LeavesWhatIsThereAsAView) {
  SimulatedDevices devices({.count = 2});
  const Tensor x = zeros({4, 2}, {.device = "cuda:0"});
  const OperationCounts before = devices.counts(0);
  std::vector<Tensor> shards = scatter(x, std::vector<Device>{"cuda:0", "cuda:1"});
  EXPECT_EQ(devices.counts(0).allocations, before.allocations);
  shards[0].fill_(1);
  shards[1].fill_(2);
  EXPECT_EQ(values(x), (std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_TRUE(scatter(x, std::vector<Device>{"cuda:0"})[0].is_same(x));
}

TEST(Scatter, OfAnEmptyBatchIsOneShard) {
  const TestDevices devices(3);
  const std::vector<Tensor> shards = scatter(zeros({0, 5}), kThreeDevices);
  ASSERT_EQ(shards.size(), 1u);
  EXPECT_EQ(shards[0].sizes(), (Shape{0, 5}));
  EXPECT_EQ(shards[0].device(), kThreeDevices[0]);
}

TEST(Scatter, SplitsTensorsOfAnyDtypeAndRankTogether) {
  const TestDevices devices(3);
  const Tensor x = arange(14).view({2, 7});
  std::vector<Tensor> batch;
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kInt64, kBool}) batch.push_back(x.to(dtype));
  batch.push_back(x.view({2, 7, 1}));
  const auto shards = scatter(batch, kThreeDevices, {.dim = 1});
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < batch.size(); ++k) {
      EXPECT_EQ(shards[i][k].dtype(), batch[k].dtype());
      const std::int64_t from = 3 * std::int64_t(i);
      EXPECT_EQ(values(shards[i][k]), values(batch[k].narrow(1, from, std::min<std::int64_t>(3, 7 - from))));
    }
}

struct Batch {
  Tensor ids;
  std::optional<Tensor> mask;
  std::map<std::string, std::vector<Tensor>> features;
  int epoch = 0;
  auto members() { return lockstep::members("ids", ids, "mask", mask, "features", features, "epoch", epoch); }
};

TEST(Scatter, SplitsAllTensorsInAValueAndRepeatsTheRest) {
  const TestDevices devices(3);
  const Tensor rows = arange(6);
  const auto shards =
      scatter(std::tuple(Batch{rows, rows, {{"a", {rows, rows}}}, 7}, std::string("text"), rows), kThreeDevices);
  ASSERT_EQ(shards.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& [batch, text, tail] = shards[i];
    const std::vector<double> expected = {2. * double(i), 2. * double(i) + 1};
    EXPECT_EQ(values(batch.ids), expected);
    EXPECT_EQ(values(*batch.mask), expected);
    EXPECT_EQ(values(batch.features.at("a")[1]), expected);
    EXPECT_EQ(values(tail), expected);
    EXPECT_EQ(batch.epoch, 7);
    EXPECT_EQ(text, "text");
    EXPECT_EQ(batch.ids.device(), kThreeDevices[i]);
  }
}

TEST(Scatter, LeavesUndefinedTensorsUndefined) {
  const TestDevices devices(3);
  const auto shards = scatter(std::pair(Tensor(), arange(6)), kThreeDevices);
  EXPECT_FALSE(shards[1].first.defined());
  EXPECT_TRUE(shards[1].second.defined());
}

TEST(Scatter, OfAValueWithoutTensorsIsOneShard) {
  const TestDevices devices(3);
  EXPECT_EQ(scatter(5, kThreeDevices), std::vector<int>{5});
}

TEST(Scatter, CarriesGradientsBack) {
  const TestDevices devices(3);
  Tensor x = arange(7, {.dtype = kFloat32});
  x.requires_grad_();
  const std::vector<Tensor> shards = scatter(x, kThreeDevices);
  Tensor total = sum(shards[0]).cpu();
  for (std::size_t i = 1; i < 3; ++i) total = total + sum(shards[i] * double(i + 1)).cpu();
  total.backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{1, 1, 1, 2, 2, 2, 3}));
}

TEST(ScatterRefuses, TensorsWithoutThatDimensionByName) {
  const TestDevices devices(3);
  EXPECT_EQ(thrown<ShapeError>([] {
              scatter(std::vector<Tensor>{zeros({3}), tensor(1.)}, kThreeDevices, {}, "inputs");
            }),
            "[scatter] expected tensors with a batch dimension, got a 0-dim one as inputs[1]");
  EXPECT_EQ(thrown<ShapeError>([] { scatter(zeros({3}), kThreeDevices, {.dim = 1}, "x"); }),
            "[scatter] expected tensors with dimension 1, got shape [3] as x");
  EXPECT_THROW(scatter(zeros({3}), kThreeDevices, {.dim = -2}), ShapeError);
}

TEST(ScatterRefuses, LeadingSizesThatDisagreeByName) {
  SimulatedDevices devices({.count = 3});
  const auto value = std::tuple(zeros({6, 2}), std::map<std::string, Tensor>{{"mask", zeros({5})}});
  const OperationCounts before = devices.counts(0);
  EXPECT_EQ(thrown<ShapeError>([&] { scatter(value, kThreeDevices, {}, "arguments"); }),
            "[scatter] expected 6 rows along dimension 0 as in arguments[0], got shape [5] as arguments[1][\"mask\"]");
  EXPECT_EQ(devices.counts(0).copies, before.copies);
}

TEST(ScatterRefuses, NoDevices) {
  EXPECT_EQ(thrown<InvalidArgument>([] { scatter(zeros({3}), std::span<const Device>()); }),
            "[scatter] expected at least one device, got none");
}

TEST(Scatter, CopiesEachShardOfAPinnedBatchFromWhereItLies) {
  const SimulatedDevices devices({.count = 3});
  const Tensor batch = arange(0, 20).view({10, 2});
  const Trace trace;
  const auto shards = scatter(batch.pin_memory(), kThreeDevices);
  std::vector<Device> receivers;
  for (const Device& device : kThreeDevices) synchronize(device);
  for (const TraceEvent& event : trace.events()) {
    EXPECT_NE(event.kind, TraceKind::copy_from_host);
    EXPECT_NE(event.kind, TraceKind::copy_between);
    if (event.kind == TraceKind::copy_from_pinned) receivers.push_back(event.device);
  }
  std::ranges::sort(receivers);
  EXPECT_EQ(receivers, kThreeDevices);
  EXPECT_EQ(values(shards[2]), values(batch.narrow(0, 8, 2)));
}

}  // namespace
}  // namespace lockstep
