// Losses: properties besides the reference values.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/all_ops.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;

TEST(Loss, DoesNotBroadcastItsTarget) {
  const Tensor input = ones({3, 1}), target = ones({3});
  EXPECT_THROW(mse_loss(input, target), ShapeError);
  EXPECT_THROW(l1_loss(input, target), ShapeError);
  EXPECT_THROW(kl_div(input, target), ShapeError);
  try {
    binary_cross_entropy(input, target);
    ADD_FAILURE();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "[binary_cross_entropy] expected a target of shape [3, 1], got [3]");
  }
}

TEST(Loss, RejectsIntegers) {
  EXPECT_THROW(mse_loss(tensor({1}), tensor({1})), DTypeError);
  EXPECT_THROW(cross_entropy(tensor({{1, 2}}), tensor({1})), DTypeError);
  EXPECT_THROW(cross_entropy(tensor({{1., 2.}}), tensor({1.})), DTypeError);  // classes of a dtype that is no integer
  EXPECT_THROW(cross_entropy(tensor({{1., 2.}}), tensor({1., 0., 0.})), ShapeError);
}

TEST(Loss, RejectsOptionsOutOfRange) {
  const Tensor x = tensor({1.});
  EXPECT_THROW(huber_loss(x, x, {.delta = 0}), InvalidArgument);
  EXPECT_THROW(smooth_l1_loss(x, x, {.beta = -1}), InvalidArgument);
  EXPECT_THROW(binary_cross_entropy(x, x, {.pos_weight = x}), InvalidArgument);
  EXPECT_THROW(cross_entropy(ones({1, 2}), tensor({0}), {.label_smoothing = 2}), InvalidArgument);
}

TEST(Loss, ReducesAsAsked) {
  const Tensor x = tensor({{1., 2.}, {3., 5.}}), y = zeros({2, 2});
  EXPECT_EQ(mse_loss(x, y).item<float>(), 9.75f);
  EXPECT_EQ(mse_loss(x, y, {.reduction = Reduction::sum}).item<float>(), 39);
  EXPECT_EQ(mse_loss(x, y, {.reduction = Reduction::batchmean}).item<float>(), 19.5f);
  EXPECT_EQ(mse_loss(x, y, {.reduction = Reduction::none}).to_vector<float>(), (Floats{1, 4, 9, 25}));
}

TEST(SmoothL1Loss, WithBeta0IsL1Loss) {
  Tensor x = tensor({1., 0., -2.}).requires_grad_();
  smooth_l1_loss(x, zeros({3}), {.reduction = Reduction::sum, .beta = 0}).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{1, 0, -1}));
}

TEST(BinaryCrossEntropy, StaysFiniteAtTheEnds) {
  Tensor p = tensor({0., 1.}).requires_grad_();
  const Tensor loss = binary_cross_entropy(p, tensor({1., 0.}));
  EXPECT_EQ(loss.item<float>(), 100);
  loss.backward();
  for (const float value : p.grad().to_vector<float>()) EXPECT_TRUE(std::isfinite(value));
}

TEST(BinaryCrossEntropy, WithLogitsIsExactFarOut) {
  Tensor x = tensor({-1000., 1000.}).requires_grad_();
  const Tensor loss = binary_cross_entropy_with_logits(x, tensor({1., 0.}), {.reduction = Reduction::sum});
  EXPECT_EQ(loss.item<float>(), 2000);
  loss.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{-1, 1}));
}

TEST(CrossEntropy, IsTheLogarithmOfSoftmaxAtTheTarget) {
  const Tensor x = randn({5, 7}, {.dtype = kFloat64});
  const Tensor target = tensor({0, 6, 3, 3, 1});
  const Tensor expected = nll_loss(log_softmax(x, 1), target);
  EXPECT_NEAR(cross_entropy(x, target).item<double>(), expected.item<double>(), 1e-14);
}

TEST(CrossEntropy, TakesInt32Targets) {
  const Tensor x = randn({3, 4});
  EXPECT_EQ(cross_entropy(x, tensor({1, 2, 3}).to(kInt32)).item<float>(),
            cross_entropy(x, tensor({1, 2, 3})).item<float>());
}

TEST(CrossEntropy, OfOneHotProbabilitiesIsThatOfTheClasses) {
  const Tensor x = randn({2, 3}, {.dtype = kFloat64});
  const Tensor probabilities = tensor({{0., 1., 0.}, {0., 0., 1.}}, {.dtype = kFloat64});
  EXPECT_NEAR(cross_entropy(x, probabilities, {.label_smoothing = 0.1}).item<double>(),
              cross_entropy(x, tensor({1, 2}), {.label_smoothing = 0.1}).item<double>(), 1e-14);
}

TEST(CrossEntropy, StaysFiniteFarOut) {
  Tensor x = tensor({{1e5, -1e5, 0.}}).requires_grad_();
  const Tensor loss = cross_entropy(x, tensor({1}));
  EXPECT_EQ(loss.item<float>(), 2e5f);
  loss.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{1, -1, 0}));
}

TEST(CrossEntropy, IgnoredRowsHaveNoLossAndNoGradient) {
  Tensor x = randn({3, 4}).requires_grad_();
  cross_entropy(x, tensor({1, -100, 2})).backward();
  const auto gradient = x.grad()[1].to_vector<float>();
  EXPECT_EQ(gradient, (Floats{0, 0, 0, 0}));
  EXPECT_TRUE(std::isnan(cross_entropy(x, tensor({-100, -100, -100})).item<float>()));
}

TEST(CrossEntropy, RejectsShapesThatDoNotFit) {
  EXPECT_THROW(cross_entropy(ones({3, 4}), tensor({1, 2})), ShapeError);
  EXPECT_THROW(cross_entropy(tensor(1.), tensor(0)), ShapeError);
  EXPECT_THROW(cross_entropy(ones({1, 4}), tensor({1}), {.weight = ones({3})}), ShapeError);
  EXPECT_THROW(cross_entropy(ones({1, 4}), tensor({1}), {.weight = ones({4}, {.dtype = kFloat64})}), DTypeError);
  EXPECT_THROW(cross_entropy(ones({1, 4}), tensor({true})), DTypeError);
}

TEST(CrossEntropy, RejectsAClassOutOfRange) {
  EXPECT_THROW(cross_entropy(ones({1, 4}), tensor({4})), InvalidArgument);
  EXPECT_THROW(cross_entropy(ones({1, 4}), tensor({-1})), InvalidArgument);
  SimulatedDevices devices({.count = 1});
  const Tensor loss = cross_entropy(ones({1, 4}).cuda(), tensor({4}).cuda());
  EXPECT_THROW(loss.item<float>(), InvalidArgument);
}

TEST(CrossEntropy, ComputesHalvesInFloat) {
  Tensor x = randn({64, 10}).to(kFloat16).requires_grad_();
  const Tensor target = randint(0, 10, {64});
  const Tensor loss = cross_entropy(x, target);
  EXPECT_EQ(loss.dtype(), kFloat16);
  EXPECT_NEAR(loss.item<float>(), cross_entropy(x.detach().to(kFloat32), target).item<float>(), 2e-3);
  loss.backward();
  EXPECT_EQ(x.grad().dtype(), kFloat16);
}

TEST(CrossEntropy, GivesTheSameBitsEachTime) {
  const Tensor x = randn({1000, 33});
  const Tensor target = randint(0, 33, {1000});
  const auto run = [&] {
    Tensor leaf = x.clone().requires_grad_();
    const Tensor loss = cross_entropy(leaf, target);
    loss.backward();
    return std::pair(loss.item<float>(), leaf.grad().to_vector<float>());
  };
  EXPECT_EQ(run(), run());
}

// Enough rows that a device adds them in pieces. Equal logits: the loss of a row is log(classes) by definition.
TEST(CrossEntropy, OfManyRows) {
  const TestDevices devices(1);
  for (const std::int64_t rows : {2047, 4096, 4100, 10'001}) {
    const Tensor target = remainder(arange(0, double(rows), 1, {.dtype = kInt64}), 3), weight = tensor({1.0, 2.0, 4.0});
    double total = 0;
    for (std::int64_t r = 0; r < rows; ++r) total += double(1 << r % 3);
    const auto loss = [&](Reduction reduction) {
      return cross_entropy(zeros({rows, 3}, {.dtype = kFloat64}).cuda(), target.cuda(),
                           {.weight = weight.to(kFloat64).cuda(), .reduction = reduction})
          .item<double>();
    };
    EXPECT_NEAR(loss(Reduction::sum), total * std::log(3.0), 1e-9 * total) << rows;
    EXPECT_NEAR(loss(Reduction::mean), std::log(3.0), 1e-12) << rows;
  }
}

TEST(CrossEntropy, HasAName) {
  EXPECT_EQ(cross_entropy(ones({1, 2}).requires_grad_(), tensor({0})).grad_fn(), "CrossEntropyBackward");
}

TEST(CrossEntropy, RefusesBackwardAfterItsWeightsChanged) {
  const Tensor x = randn({3, 2}, {.requires_grad = true});
  const Tensor classes = tensor({0, 1, 1});
  Tensor weight = ones({2});
  const Tensor loss = cross_entropy(x, classes, {.weight = weight});
  weight.fill_(1000);
  EXPECT_THROW(loss.backward(), AutogradError);
  const Tensor likely = nll_loss(log_softmax(x, 1), classes, {.weight = weight});
  weight.fill_(1);
  EXPECT_THROW(likely.backward(), AutogradError);
}

TEST(BinaryCrossEntropy, WithPositiveWeightIsExactFarOut) {
  const Tensor x = tensor({-20.1, 30.}, {.dtype = kFloat64}), y = tensor({1., 1.}, {.dtype = kFloat64});
  const auto losses = binary_cross_entropy_with_logits(
                          x, y, {.reduction = Reduction::none, .pos_weight = full({}, 2, {.dtype = kFloat64})})
                          .to_vector<double>();
  EXPECT_DOUBLE_EQ(losses[0], 2 * (20.1 + std::log1p(std::exp(-20.1))));
  EXPECT_DOUBLE_EQ(losses[1], 2 * std::log1p(std::exp(-30.)));
}

TEST(BinaryCrossEntropy, WithLogitsKeepsSmallLosses) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto loss = [](double x, double target) {
    return double(binary_cross_entropy_with_logits(full({1}, x), full({1}, target)).item<float>());
  };
  for (const double x : {10., 16., 30.}) {
    const double expected = std::log1p(std::exp(-x));
    EXPECT_NEAR(loss(x, 1), expected, 1e-6 * expected) << x;
    EXPECT_NEAR(loss(-x, 0), expected, 1e-6 * expected) << x;
  }
  EXPECT_EQ(loss(kInfinity, 0), kInfinity);
  EXPECT_EQ(loss(kInfinity, 0.5), kInfinity);
  EXPECT_EQ(loss(kInfinity, 1), 0);
  EXPECT_EQ(loss(-kInfinity, 0), 0);
  EXPECT_EQ(loss(-kInfinity, 1), kInfinity);
  EXPECT_TRUE(std::isnan(loss(std::nan(""), 0)));
}

TEST(CrossEntropy, IgnoredRowsHaveNoRecordedGradient) {
  const double nan = std::nan("");
  const auto recorded = [](const Tensor& loss, const Tensor& x) {
    return gradients(std::vector<Tensor>{loss}, std::vector<Tensor>{x}, {}, {.create_graph = true})[0].detach();
  };
  const Tensor x = tensor({{1., 2., 3.}}, {.requires_grad = true});
  EXPECT_EQ(recorded(cross_entropy(x, tensor({-100})), x).to_vector<float>(), (Floats{0, 0, 0}));
  EXPECT_EQ(recorded(nll_loss(x, tensor({-100})), x).to_vector<float>(), (Floats{0, 0, 0}));
  const Tensor y = tensor({{nan, 0.}, {0., 0.}}, {.requires_grad = true});
  EXPECT_EQ(recorded(cross_entropy(y, tensor({-100, 1})), y).to_vector<float>(), (Floats{0, 0, 0.5, -0.5}));
}

TEST(Loss, GradientsKeepNan) {
  for (const bool smooth : {false, true}) {
    Tensor x = tensor({std::nan(""), 0.5, 3., -3.}).requires_grad_();
    const Tensor target = zeros({4});
    (smooth ? smooth_l1_loss(x, target, {.reduction = Reduction::sum})
            : huber_loss(x, target, {.reduction = Reduction::sum}))
        .backward();
    const Floats gradient = x.grad().to_vector<float>();
    EXPECT_TRUE(std::isnan(gradient[0]));
    EXPECT_EQ(Floats(gradient.begin() + 1, gradient.end()), (Floats{0.5, 1, -1}));
  }
}

}  // namespace
}  // namespace lockstep
