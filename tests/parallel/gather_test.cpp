// Joining the outputs of replicas.
#include <lockstep/parallel/gather.h>

#include <gtest/gtest.h>

#include <any>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/parallel/scatter.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

const std::vector<Device> kThree = {"cuda:0", "cuda:1", "cuda:2"};

TEST(Gather, UndoesScatter) {
  SimulatedDevices devices({.count = 3, .seed = 2, .max_delay_us = 50});
  for (const std::int64_t rows : {0, 1, 2, 7, 30})
    for (const ScatterSplit split : {ScatterSplit::chunk, ScatterSplit::balanced})
      for (const std::int64_t dim : {0, 1, -1})
        for (const Device output : {Device("cuda:0"), Device("cuda:2"), Device("cpu")}) {
          const Tensor x = dim == 0 ? randn({rows, 3}) : randn({3, rows});
          const Tensor joined = gather(scatter(x, kThree, {.dim = dim, .split = split}), output, {.dim = dim});
          EXPECT_EQ(joined.device(), output);
          EXPECT_EQ(joined.sizes(), x.sizes());
          EXPECT_EQ(values(joined), values(x));
        }
}

TEST(Gather, WritesStraightIntoOneBuffer) {
  SimulatedDevices devices({.count = 3});
  const std::vector<Tensor> shards = scatter(randn({30, 4}), kThree);
  const OperationCounts before = devices.counts(0);
  gather(shards, "cuda:0");
  EXPECT_EQ(devices.counts(0).allocations, before.allocations + 1);
}

TEST(Gather, MakesAVectorOfScalars) {
  const TestDevices devices(3);
  std::vector<Tensor> parts;
  for (int i = 0; i < 3; ++i) parts.push_back(tensor(double(i), {.device = kThree[std::size_t(i)]}));
  const Tensor joined = gather(parts, "cuda:1");
  EXPECT_EQ(joined.sizes(), (Shape{3}));
  EXPECT_EQ(values(joined), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(joined.device(), Device("cuda:1"));
}

TEST(GatherMean, WeightsShardsByTheirSize) {
  const TestDevices devices(3);
  const Tensor x = randn({10, 2}, {.dtype = kFloat64});
  std::vector<std::int64_t> rows;
  std::vector<Tensor> means;
  for (const Tensor& shard : scatter(x, kThree, {}, "x", &rows)) means.push_back(mean(shard));
  EXPECT_NEAR(gather(means, "cuda:0", {.how = Gather::mean, .rows = rows}).item<double>(), mean(x).item<double>(),
              1e-12);
}

TEST(GatherMean, IsThePlainMeanWithoutSizes) {
  EXPECT_EQ(
      gather(std::vector<Tensor>{tensor({1., 2.}), tensor({3., 6.})}, "cpu", {.how = Gather::mean}).to_vector<float>(),
      (std::vector<float>{2, 4}));
}

TEST(GatherMean, TakesNothingFromAnEmptyShard) {
  const Tensor nothing = full({}, std::numeric_limits<double>::quiet_NaN());
  const auto joined = gather(std::vector<Tensor>{nothing, tensor(3.)}, "cpu", {.how = Gather::mean, .rows = {0, 4}});
  EXPECT_EQ(joined.item<double>(), 3);
}

TEST(GatherByRank, JoinsAsTheRankSays) {
  const TestDevices devices(2);
  const Tensor a = ones({2}, {.device = "cuda:0"}), b = zeros({1}, {.device = "cuda:1"});
  const auto of = [&](const Tensor& x, double mean) { return std::tuple(x, tensor(mean, {.device = x.device()})); };
  const auto [rows, mean] = gather(std::vector{of(a, 3), of(b, 6)}, "cuda:0", {.how = Gather::by_ndim, .rows = {2, 1}});
  EXPECT_EQ(values(rows), (std::vector<double>{1, 1, 0}));
  EXPECT_EQ(mean.sizes(), Shape());
  EXPECT_NEAR(mean.item<double>(), 4, 1e-6);
}

TEST(GatherSum, AddsTheParts) {
  const TestDevices devices(2);
  const Tensor a = tensor({1., 2.}, {.device = "cuda:0"}).requires_grad_();
  const Tensor b = tensor({10., 20.}, {.device = "cuda:1"}).requires_grad_();
  const Tensor joined = gather(std::vector<Tensor>{a, b}, "cuda:0", {.how = Gather::sum});
  EXPECT_EQ(values(joined.detach()), (std::vector<double>{11, 22}));
  sum(joined * joined).backward();
  EXPECT_EQ(values(b.grad()), (std::vector<double>{22, 44}));
  EXPECT_EQ(b.grad().device(), Device("cuda:1"));
  EXPECT_THROW(gather(std::vector<Tensor>{ones({2}), ones({3})}, "cpu", {.how = Gather::sum}), ShapeError);
}

struct Output {
  Tensor logits;
  std::optional<Tensor> mask;
  std::string name;
  auto members() { return lockstep::members("logits", logits, "mask", mask, "name", name); }
};

TEST(Gather, JoinsAllTensorsInAValue) {
  const TestDevices devices(3);
  std::vector<std::tuple<Output, std::map<std::string, Tensor>, int>> parts;
  for (const Device& device : kThree) {
    const Tensor x = ones({2, 1}, {.device = device});
    parts.push_back({Output{x, x * 2.0, "net"}, {{"loss", sum(x)}}, 5});
  }
  const auto [output, losses, number] = gather(parts, "cuda:0");
  EXPECT_EQ(output.logits.sizes(), (Shape{6, 1}));
  EXPECT_EQ(values(*output.mask), std::vector<double>(6, 2));
  EXPECT_EQ(output.name, "net");
  EXPECT_EQ(values(losses.at("loss")), std::vector<double>(3, 2));
  EXPECT_EQ(number, 5);
}

TEST(GatherRefuses, PartsThatDoNotFitTheFirst) {
  const std::vector<Tensor> shapes = {zeros({2, 3}), zeros({2, 4})}, ranks = {zeros({2}), tensor(1.)},
                            dtypes = {zeros({2}), zeros({2}, {.dtype = kFloat64})};
  EXPECT_EQ(thrown<ShapeError>([&] { gather(shapes, "cpu"); }),
            "[gather] expected output of replica 1 to fit [2, 3] of replica 0, got [2, 4]");
  EXPECT_THROW(gather(ranks, "cpu"), ShapeError);
  EXPECT_EQ(thrown<DTypeError>([&] { gather(dtypes, "cpu"); }),
            "[gather] expected output of replica 1 to be float32 as in replica 0, got float64");
  EXPECT_THROW(gather(shapes, "cpu", {.dim = 2}), ShapeError);
  EXPECT_THROW(gather(shapes, "cpu", {.how = Gather::mean}), ShapeError);
  EXPECT_THROW(gather(std::vector<Tensor>{tensor({1, 2})}, "cpu", {.how = Gather::mean}), DTypeError);
  EXPECT_THROW(gather(std::vector<Tensor>(2, ones({1})), "cpu", {.how = Gather::mean, .rows = {1}}), InvalidArgument);
  EXPECT_EQ(thrown<InvalidArgument>([] { gather(std::vector<Tensor>{}, "cpu"); }),
            "[gather] expected at least one part of output, got none");
}

TEST(GatherRefuses, AnotherStructure) {
  const Tensor x = ones({1});
  EXPECT_THROW(gather(std::vector<std::vector<Tensor>>{{x, x}, {x}}, "cpu"), InvalidArgument);
  EXPECT_THROW(gather(std::vector<std::map<std::string, Tensor>>{{{"a", x}}, {{"b", x}}}, "cpu"), InvalidArgument);
  EXPECT_THROW(gather(std::vector<std::optional<Tensor>>{x, std::nullopt}, "cpu"), InvalidArgument);
  const std::string refused = thrown<InvalidArgument>([&] {
    gather(std::vector<std::pair<Tensor, Tensor>>{{x, x}, {x, {}}}, "cpu");
  });
  EXPECT_NE(refused.find("replica 1 returned output[1] with other members, tensors or container sizes than replica 0"),
            std::string::npos)
      << refused;
}

TEST(GatherRefuses, OtherValuesThatDiffer) {
  const Tensor x = ones({1});
  EXPECT_NE(thrown<InvalidArgument>([] {
              gather(std::vector<int>{1, 2}, "cpu");
            }).find("got another value in replica 1"),
            std::string::npos);
  const std::string inside = thrown<InvalidArgument>([&] {
    gather(std::vector<std::tuple<Tensor, int>>{{x, 1}, {x, 1}, {x, 3}}, "cpu");
  });
  EXPECT_NE(inside.find("output[1]"), std::string::npos) << inside;
  EXPECT_NE(inside.find("replica 2"), std::string::npos) << inside;
  EXPECT_EQ(gather(std::vector<int>{4, 4}, "cpu"), 4);
}

TEST(Gather, CarriesGradientsBackToEachReplica) {
  const TestDevices devices(3);
  std::vector<Tensor> leaves, parts, scalars;
  for (const Device& device : kThree) {
    leaves.push_back(ones({2}, {.device = device, .requires_grad = true}));
    parts.push_back(leaves.back() * 2.0);
    scalars.push_back(sum(leaves.back()));
  }
  const Tensor weights = arange(6, {.dtype = kFloat32, .device = "cuda:0"});
  const Tensor vector = gather(scalars, "cuda:0"),
               average = gather(scalars, "cuda:0", {.how = Gather::mean, .rows = {1, 1, 2}});
  backward(std::vector<Tensor>{sum(gather(parts, "cuda:0") * weights) + sum(vector) * 10.0 + average * 100.0});
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(leaves[i].grad().device(), kThree[i]);
    const double rest = 10 + (i == 2 ? 50 : 25);
    EXPECT_EQ(values(leaves[i].grad()), (std::vector<double>{4. * double(i) + rest, 4. * double(i) + 2 + rest}));
  }
}

TEST(Gather, IsNotRecordedUnderNoGrad) {
  const NoGrad guard;
  EXPECT_FALSE(gather(std::vector<Tensor>(2, ones({1}, {.requires_grad = true})), "cpu").requires_grad());
}

TEST(Gather, RefusesContainersThatDiffer) {
  const TestDevices devices(2);
  const Tensor x = ones({2});
  const auto expect_refusal = [](const auto& a, const auto& b) {
    EXPECT_THROW(gather(std::vector{a, b}, "cuda:0"), InvalidArgument);
    EXPECT_NO_THROW(gather(std::vector{a, a}, "cuda:0"));
  };
  using Lists = std::vector<std::vector<Tensor>>;
  expect_refusal(std::map<int, Tensor>{{1, x}}, std::map<int, Tensor>{{7, x}});
  expect_refusal(std::map<std::pair<int, int>, Tensor>{{{1, 2}, x}},
                 std::map<std::pair<int, int>, Tensor>{{{1, 3}, x}});
  expect_refusal(Lists{{}, {}}, Lists{});
  expect_refusal(std::optional(std::vector<Tensor>()), std::optional<std::vector<Tensor>>());
}

TEST(Gather, JoinsDequesListsVariantsAndUnorderedMaps) {
  const TestDevices devices(2);
  const Tensor x = ones({2});
  EXPECT_EQ(gather(std::vector(2, std::deque<Tensor>{x}), "cuda:0")[0].sizes(), Shape{4});
  EXPECT_EQ(gather(std::vector(2, std::list<Tensor>{x}), "cuda:0").front().sizes(), Shape{4});
  EXPECT_EQ(std::get<1>(gather(std::vector(2, std::variant<int, Tensor>(x)), "cuda:0")).sizes(), Shape{4});
  EXPECT_EQ(std::get<0>(gather(std::vector(2, std::variant<int, Tensor>(3)), "cuda:0")), 3);
  EXPECT_THROW(gather(std::vector<std::variant<int, Tensor>>{x, 3}, "cuda:0"), InvalidArgument);
}

TEST(Gather, JoinsUnorderedMapsByTheirKeys) {
  const TestDevices devices(2);
  std::unordered_map<std::string, Tensor> first, second;
  for (int i = 0; i < 20; ++i) first.emplace(std::to_string(i), full({1}, double(i)));
  for (int i = 20; i-- > 0;) second.emplace(std::to_string(i), full({1}, double(100 + i)));
  second.rehash(1000);
  const auto joined = gather(std::vector{first, second}, "cuda:0");
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(values(joined.at(std::to_string(i))), (std::vector<double>{double(i), 100. + i}));
}

TEST(Gather, TakesNumbersThatAreNanAsEqual) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto check = [](const auto& a, const auto& b) {
    EXPECT_NO_THROW(gather(std::vector{a, a}, "cpu"));
    EXPECT_THROW(gather(std::vector{a, b}, "cpu"), InvalidArgument);
  };
  check(nan, 1.);
  check(std::tuple(ones({1}), nan), std::tuple(ones({1}), 1.));
  check(std::vector{1., nan}, std::vector{1., 2.});
  check(std::optional(nan), std::optional<double>());
}

struct Fixed {
  Tensor x;
  int sizes[2] = {3, 4};
  auto members() { return lockstep::members("x", x, "sizes", sizes); }
};

TEST(Gather, ComparesArraysByTheirElements) {
  const Tensor x = ones({1});
  EXPECT_EQ(gather(std::vector<Fixed>{{x}, {x}}, "cpu").x.sizes(), Shape{2});
  EXPECT_NE(thrown<InvalidArgument>([&] {
              gather(std::vector<Fixed>{{x}, {x, {3, 5}}}, "cpu");
            }).find("output.sizes"),
            std::string::npos);
}

TEST(Gather, JoinsArrays) {
  struct Pair {
    Tensor x[2];
    auto members() { return lockstep::members("x", x); }
  };
  EXPECT_EQ(gather(std::vector<Pair>(2, Pair{{ones({1}), ones({2})}}), "cpu").x[1].sizes(), Shape{4});
}

struct Hidden {
  Tensor x;
};
struct Compared {
  int value = 0;
  bool operator==(const Compared&) const = default;
};
struct Tag {};

// Types that may hold tensors where they cannot be visited are refused at compile time.
static_assert(!kHidesNoTensors<Hidden>);
static_assert(!kHidesNoTensors<std::vector<Hidden>>);
static_assert(!kHidesNoTensors<std::set<Tensor>>);
static_assert(!kHidesNoTensors<std::unordered_multimap<std::string, Tensor>>);
static_assert(!kHidesNoTensors<std::variant<int, Hidden>>);
static_assert(!kHidesNoTensors<std::any>);
static_assert(kHidesNoTensors<Output> && kHidesNoTensors<std::deque<Tensor>>);
static_assert(kHidesNoTensors<Compared> && kHidesNoTensors<std::vector<Compared>> && kHidesNoTensors<Tag>);
static_assert(!kHidesNoTensors<std::function<void()>> && !kHidesNoTensors<nn::Linear>);
static_assert(!kHidesNoTensors<Tensor*> && !kHidesNoTensors<std::shared_ptr<const Output>>);
static_assert(!kHidesNoTensors<std::vector<std::unique_ptr<Tensor>>> &&
              !kHidesNoTensors<std::reference_wrapper<Output>>);
static_assert(!kHidesNoTensors<std::shared_ptr<Hidden>>);
static_assert(kHidesNoTensors<Gather> && kHidesNoTensors<Device> && kHidesNoTensors<std::optional<double>>);
static_assert(kHidesNoTensors<std::nullopt_t> && kHidesNoTensors<std::string_view> && kHidesNoTensors<const char*>);
static_assert(kHidesNoTensors<int (*)(double)> && kHidesNoTensors<std::set<std::pair<int, std::string>>>);
static_assert(kHidesNoTensors<std::string> && kHidesNoTensors<std::map<std::string, std::vector<double>>>);

TEST(Scatter, SplitsMapsOfAnyOrder) {
  const TestDevices devices(2);
  const std::map<std::string, Tensor, std::less<>> batch = {{"a", ones({4})}};
  const auto shards = scatter(batch, try_all_gpus());
  ASSERT_EQ(shards.size(), 2u);
  EXPECT_EQ(shards[1].at("a").sizes(), Shape{2});
  EXPECT_EQ(shards[1].at("a").device(), Device("cuda:1"));
}

}  // namespace
}  // namespace lockstep
