// Activations: randomness, bounds, and errors. tests/reference compares their values with PyTorch's.
#include <lockstep/ops/activation.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <lockstep/tensor/batch_shard.h>

#include "core/context.h"
#include "ops/checks.h"
#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep::activation_tests {
namespace {

using testing::doubles;
using testing::expect_values;
using testing::kInfinity;
using testing::kNan;
using testing::thrown;
using testing::values;

TEST(Activations, KeepNan) {
  const Tensor nan = tensor({kNan}, {.dtype = kFloat64});
  for (const Tensor& y :
       {celu(nan), relu6(nan), hardsigmoid(nan), logsigmoid(nan), softsign(nan), hardshrink(nan), softshrink(nan),
        tanhshrink(nan), threshold(nan, 0, 1), prelu(nan, tensor({0.5}, {.dtype = kFloat64}))})
    EXPECT_TRUE(std::isnan(y.item<double>()));
}

TEST(Activations, AreExactAtTheirBounds) {
  const Tensor x = doubles({-0.5, 0.5}, {2});
  expect_values(hardshrink(x), {0, 0});
  expect_values(softshrink(x), {0, 0});
  expect_values(threshold(x, 0.5, 7), {7, 7});
  expect_values(hardsigmoid(doubles({-3, 3, -kInfinity, kInfinity}, {4})), {0, 1, 0, 1});
  expect_values(relu6(doubles({-1, 0, 6, 7}, {4})), {0, 0, 6, 6});
  expect_values(logsigmoid(doubles({-800, 800}, {2})), {-800, 0});
}

TEST(Activations, RefuseWhatTheyCannotDo) {
  const Tensor x = zeros({3, 3});
  EXPECT_EQ(thrown<InvalidArgument>([&] { celu(x, 0); }), "[celu] expected an alpha other than 0, got 0");
  EXPECT_EQ(thrown<InvalidArgument>([&] { softshrink(x, -1); }), "[softshrink] expected lambda >= 0, got -1");
  EXPECT_EQ(thrown<ShapeError>([&] { glu(x, 1); }), "[glu] expected an even size along dimension 1, got [3, 3]");
  EXPECT_EQ(thrown<ShapeError>([&] { prelu(x, zeros({2})); }),
            "[prelu] expected a weight of shape [1] or [3] for x [3, 3], got [2]");
  EXPECT_EQ(thrown<InvalidArgument>([&] { rrelu(x, {.lower = 1, .upper = 0}); }),
            "[rrelu] expected lower <= upper, got 1 and 0");
  EXPECT_EQ(thrown<InvalidArgument>([&] { gumbel_softmax(x, {.tau = 0}); }),
            "[gumbel_softmax] expected tau > 0, got 0");
  EXPECT_THROW(hardshrink(tensor({1, 2})), DTypeError);
  EXPECT_THROW(prelu(x, zeros({3}, {.dtype = kFloat64})), DTypeError);
}

std::vector<double> slopes(const Tensor& x, double lower, double upper) {
  manual_seed(5);
  return values(rrelu(x, {.lower = lower, .upper = upper, .training = true}));
}

TEST(Rrelu, DrawsSlopesEvenlyBetweenItsBounds) {
  std::vector<double> drawn = slopes(full({10000}, -1.), 0.25, 0.75);
  double mean = 0;
  for (const double y : drawn) {
    EXPECT_GE(-y, 0.25);
    EXPECT_LT(-y, 0.75);
    mean -= y / 10000;
  }
  EXPECT_NEAR(mean, 0.5, 5 * 0.5 / std::sqrt(12. * 10000));  // five standard deviations
  EXPECT_EQ(slopes(ones({3}), 0.25, 0.75), (std::vector<double>{1, 1, 1}));
}

TEST(Rrelu, DrawsTheSameSlopesForEveryLayoutDeviceAndShard) {
  const TestDevices devices(1);
  const Shape sizes = {5, 7};
  const std::vector<double> expected = slopes(full(sizes, -1.), 0.25, 0.75);
  EXPECT_EQ(slopes(full({7, 5}, -1.).t(), 0.25, 0.75), expected);
  EXPECT_EQ(slopes(full(sizes, -1., {.device = "cuda:0"}), 0.25, 0.75), expected);
  manual_seed(5);
  GeneratorState shared = current_generator();
  const BatchShard shard = {.dim = 0, .first = 2, .count = 3, .total = 5};
  Context replica = {.shard = &shard, .batch_generator = &shared};
  const ContextScope scope(replica);
  const auto part = values(rrelu(full({3, 7}, -1.), {.lower = 0.25, .upper = 0.75, .training = true}));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + 14));
}

TEST(GumbelSoftmax, DrawsClassesByTheirProbabilities) {
  manual_seed(5);
  const Tensor logits = log(doubles({0.1, 0.2, 0.7}, {3})).expand({20000, 3});
  const std::vector<double> share = values(mean(gumbel_softmax(logits, {.hard = true}), {0}));
  const double truth[] = {0.1, 0.2, 0.7};
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(share[i], truth[i], 5 * std::sqrt(truth[i] * (1 - truth[i]) / 20000)) << i;
}

TEST(GumbelSoftmax, HardIsOneHotWithTheSoftGradient) {
  const Tensor x = doubles({1, 2, 3, 3, 1, 2}, {2, 3});
  const auto gradient = [&](bool hard) {
    const Tensor leaf = x.clone().requires_grad_();
    manual_seed(3);
    const Tensor y = gumbel_softmax(leaf, {.hard = hard, .dim = 0});
    if (hard) {
      for (const double v : values(y)) EXPECT_TRUE(std::abs(v) < 1e-12 || std::abs(v - 1) < 1e-12) << v;
      expect_values(sum(y.detach(), {0}), {1, 1, 1});
    }
    sum(y * doubles({1, 2, 3, 4, 5, 6}, {2, 3})).backward();
    return values(leaf.grad());
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

}  // namespace
}  // namespace lockstep::activation_tests
