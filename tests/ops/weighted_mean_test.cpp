// WeightedMean: a mean with its weight.
#include <lockstep/ops/weighted_mean.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep::weighted_mean {
namespace {

using testing::thrown;

TEST(WeightedMean, IsTheSumDividedByTheWeight) {
  const Tensor sum = tensor({6.}, {.dtype = kFloat32}).requires_grad_();
  const Tensor weight = tensor({4.}, {.dtype = kFloat32}).requires_grad_();
  const WeightedMean mean(sum, weight);
  EXPECT_EQ(mean.value().sizes(), Shape());
  EXPECT_EQ(mean.value().item<float>(), 1.5f);
  mean.value().backward();
  EXPECT_EQ(sum.grad().to_vector<float>(), std::vector<float>{0.25f});
  EXPECT_FALSE(weight.grad().defined()) << "a weight is no function of parameters";
  EXPECT_EQ(WeightedMean(sum, 3).value().item<float>(), 2);
}

TEST(WeightedMean, CountsBeyondWhatTheSumsDtypeHolds) {
  const WeightedMean mean(tensor(60000., {.dtype = kFloat16}), tensor(std::int64_t(100000)));
  EXPECT_EQ(mean.sum.dtype(), kFloat32);
  EXPECT_NEAR(mean.value().item<float>(), 0.6f, 1e-3);
  EXPECT_EQ(WeightedMean(tensor(1., {.dtype = kFloat64}), 3).value().dtype(), kFloat64);
}

TEST(WeightedMean, RefusesWhatHasNoMean) {
  EXPECT_EQ(thrown<ShapeError>([] { WeightedMean(ones({2}), 1); }),
            "[WeightedMean] expected one element as the sum, got shape [2]");
  EXPECT_EQ(thrown<ShapeError>([] { WeightedMean(ones({}), ones({0})); }),
            "[WeightedMean] expected one element as the weight, got shape [0]");
  const TestDevices devices(1);
  EXPECT_EQ(thrown<DeviceMismatch>([] { WeightedMean(ones({}, {.device = "cuda:0"}), ones({})); }),
            "[WeightedMean] expected sum and weight on one device, got cuda:0 and cpu");
}

class MeansOverClasses : public ::testing::Test {
 protected:
  MeansOverClasses() {
    manual_seed(3);
    input = randn({5, 4, 2}).requires_grad_();
    target = tensor({0, 3, 1, -1, 2, -1, 3, 0, -1, 1}).reshape({5, 2});
  }
  // Compares values and gradients.
  void expect_same(const WeightedMean& got, const Tensor& expected) {
    EXPECT_NEAR(got.value().item<float>(), expected.item<float>(), 1e-6);
    const auto a = gradients({got.value()}, {input})[0].to_vector<float>();
    const auto b = gradients({expected}, {input})[0].to_vector<float>();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << i;
  }
  Tensor input, target;
  Tensor weight = tensor({0.5, 1., 2., 0.25}, {.dtype = kFloat32});
};

TEST_F(MeansOverClasses, AreThoseOfTheLossesWithTheirOptions) {
  const CrossEntropyOptions options[] = {
      {.ignore_index = -1}, {.weight = weight, .ignore_index = -1}, {.ignore_index = -1, .label_smoothing = 0.1}};
  for (const CrossEntropyOptions& o : options)
    expect_same(mean_cross_entropy(input, target, o), cross_entropy(input, target, o));
  const NllLossOptions of_rows = {.weight = weight, .ignore_index = -1};
  expect_same(mean_nll_loss(log_softmax(input, 1), target, of_rows), nll_loss(log_softmax(input, 1), target, of_rows));
  const Tensor probabilities = softmax(randn({5, 4, 2}), 1);
  expect_same(mean_cross_entropy(input, probabilities), cross_entropy(input, probabilities));
  EXPECT_EQ(mean_cross_entropy(input, probabilities).weight.item<double>(), 10);
}

TEST_F(MeansOverClasses, SayHowManyTargetsCount) {
  EXPECT_EQ(mean_cross_entropy(input, target, {.ignore_index = -1}).weight.item<double>(), 7);
  EXPECT_EQ(mean_nll_loss(input, target, {.weight = weight, .ignore_index = -1}).weight.item<double>(),
            0.5 * 2 + 1 * 2 + 2 + 0.25 * 2);
}

TEST_F(MeansOverClasses, OfPaddingAloneCountNothing) {
  const WeightedMean mean = mean_cross_entropy(input, full({5, 2}, -1), {.ignore_index = -1});
  EXPECT_EQ(mean.sum.item<float>(), 0);
  EXPECT_EQ(mean.weight.item<double>(), 0);
  EXPECT_TRUE(std::isnan(mean.value().item<float>()));
}

}  // namespace
}  // namespace lockstep::weighted_mean
