// weight_norm and spectral_norm: values, keys, copies, training.
#include <lockstep/nn/weight_norm.h>

#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/nn/layers.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::weight_norm_tests {
namespace {

using testing::thrown;
using testing::values;

std::vector<std::string> keys_of(const nn::ModuleBase& module) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : module.state_dict()) keys.push_back(key);
  return keys;
}

void expect_near(const Tensor& got, const Tensor& expected, double room) {
  const auto a = values(got), b = values(expected);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], room) << i;
}

TEST(WeightNorm, StartsAsTheLayerItWraps) {
  nn::Linear plain(4, 3);
  nn::WeightNorm<nn::Linear> wrapped = nn::weight_norm(copy(plain));
  const Tensor x = randn({2, 4});
  expect_near(wrapped(x), plain(x), 1e-6);
  EXPECT_EQ(keys_of(wrapped), (std::vector<std::string>{"bias", "parametrizations.weight.original0",
                                                        "parametrizations.weight.original1"}));
  EXPECT_EQ(wrapped.original0.sizes(), (Shape{3, 1}));
  expect_near(wrapped.original0, norm(plain.weight, 2, {1}, true), 1e-6);
}

TEST(WeightNorm, TrainsLengthAndDirection) {
  auto layer = nn::weight_norm(nn::Linear(4, 3));
  sum(layer(randn({2, 4}))).backward();
  for (const Tensor& parameter : layer.parameters()) EXPECT_TRUE(parameter.grad().defined());
  // A direction's gradient is orthogonal to it.
  expect_near(sum(layer.original1.grad() * layer.original1, {1}), zeros({3}), 1e-5);
}

TEST(WeightNorm, IsAValue) {
  const TestDevices devices(1);
  auto layer = nn::weight_norm(nn::Linear(4, 3));
  auto other = copy(layer);
  const Tensor x = randn({2, 4});
  const std::vector<double> before = values(other(x));
  layer.original0.detach().fill_(0);
  EXPECT_EQ(values(other(x)), before);
  other.to(Device::cuda(0));
  expect_near(other(x.to(Device::cuda(0))), copy(other)(x.to(Device::cuda(0))), 0);
}

TEST(SpectralNorm, MakesTheLargestSingularValueOne) {
  nn::Linear plain(2, 2, {.bias = false});
  plain.weight.detach().copy_(tensor({{3., 0.}, {0., -5.}}));
  auto layer = nn::spectral_norm(std::move(plain));
  EXPECT_EQ(keys_of(layer), (std::vector<std::string>{"parametrizations.weight.original",
                                                      "parametrizations.weight.0._u", "parametrizations.weight.0._v"}));
  expect_near(layer.weight().detach(), tensor({{0.6, 0.}, {0., -1.}}), 1e-5);
  expect_near(layer(tensor({{1., 0.}, {0., 1.}})), tensor({{0.6, 0.}, {0., -1.}}), 1e-5);
}

TEST(SpectralNorm, IteratesInTrainingAlone) {
  auto layer = nn::spectral_norm(nn::Linear(6, 5));
  layer.original.detach().copy_(randn({5, 6}));
  const Tensor x = randn({2, 6});
  layer.eval();
  const std::vector<double> u = values(layer.u);
  EXPECT_EQ(values(layer(x)), values(layer(x)));
  EXPECT_EQ(values(layer.u), u);
  layer.train();
  sum(layer(x)).backward();
  EXPECT_NE(values(layer.u), u);
  EXPECT_TRUE(layer.original.grad().defined());
}

TEST(WeightNorm, RefusesALayerWithoutAWeight) {
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::weight_norm(nn::LazyLinear(3)); }),
            "[weight_norm] expected a layer with a weight, got one without");
}

struct WithTable : nn::Module<WithTable> {
  nn::Buffer table{tensor({1., 2.}), {.persistent = false}};
  nn::Buffer count{tensor({3.})};
  auto members() { return nn::members("table", table, "count", count); }
  Tensor forward(const Tensor& x) const { return x * table; }
};

TEST(Buffers, ThatAreNotPersistentStayOutOfTheStateDict) {
  WithTable module;
  EXPECT_EQ(keys_of(module), std::vector<std::string>{"count"});
  EXPECT_NO_THROW(module.load_state_dict(module.state_dict()));
  module.to(kFloat64);
  EXPECT_EQ(module.table.dtype(), kFloat64);
  const WithTable other(module);
  EXPECT_EQ(keys_of(other), std::vector<std::string>{"count"});
  EXPECT_EQ(values(other.table), (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace lockstep::weight_norm_tests
