// Values and gradients where formulas fail: at bounds and kinks, at infinity, at NaN, where squares overflow or
// underflow. All numbers are PyTorch 2.15's, from its float64 where its float32 is inexact.
#include <lockstep/autograd/autograd.h>

#include "ops/all_ops.h"
#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep::special_points {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

Tensor leaf(const Numbers& numbers, DType dtype = kFloat32) {
  return tensor(numbers, {.dtype = kFloat64}).to(dtype).detach().requires_grad_();
}

void expect_near(const Tensor& got, const Numbers& expected) {
  const Numbers actual = values(got);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i])) ||
                std::abs(actual[i] - expected[i]) <= 1e-6 * std::abs(expected[i]))
        << "element " << i << ": expected " << expected[i] << ", got " << actual[i];
}

// The gradient of sum(f(x)), from the kernel and as recorded for a double backward.
template <class F>
void expect_gradient(const F& f, const Numbers& at, const Numbers& expected) {
  const Tensor x = leaf(at);
  const Tensor y = sum(f(x));
  expect_near(gradients({y}, {x}, {}, {.retain_graph = true})[0], expected);
  expect_near(gradients({y}, {x}, {}, {.create_graph = true})[0], expected);
}

TEST(SpecialPoints, OfAtan2) {
  const Numbers y = {0, 0, 1e-30, 1e-30, 3e38, 2e-5}, x = {0, -0., 1e-30, 0, 3e38, 0};
  const Tensor a = leaf(y, kFloat64), b = leaf(x, kFloat64);
  sum(atan2(a, b)).backward();
  expect_near(a.grad(), {0, 0, 5e29, 0, 1 / 6e38, 0});
  expect_near(b.grad(), {0, 0, -5e29, -1e30, -1 / 6e38, -5e4});
  const Tensor c = leaf(y), d = leaf(x);
  sum(atan2(c, d)).backward();
  for (const Tensor& gradient : {c.grad(), d.grad()}) EXPECT_TRUE(all(isfinite(gradient)).item<bool>());
  expect_near(c.grad().narrow(0, 0, 4), {0, 0, 5e29, 0});
  expect_near(d.grad().narrow(0, 0, 4), {0, 0, -5e29, -1e30});
}

TEST(SpecialPoints, OfTheGreatestBesideNan) {
  const auto greatest = [](const Tensor& x) { return max(x); };
  const auto least = [](const Tensor& x) { return min(x); };
  expect_gradient(greatest, {1, kNan, 2}, {0, 1, 0});
  expect_gradient(greatest, {kNan, kNan, 2}, {0.5, 0.5, 0});
  expect_gradient(greatest, {2, 2, 1}, {0.5, 0.5, 0});
  expect_gradient(least, {1, kNan, 2}, {0, 1, 0});
}

TEST(SpecialPoints, OfLogsumexp) {
  const auto f = [](const Tensor& x) { return logsumexp(x, {0}); };
  expect_gradient(f, {kInfinity, 0}, {kNan, 0});
  expect_gradient(f, {kInfinity, -kInfinity}, {kNan, 0});
  expect_gradient(f, {-kInfinity, 0}, {0, 1});
  expect_gradient(f, {-kInfinity, -kInfinity}, {kNan, kNan});
  expect_gradient(f, {kNan, 0}, {kNan, kNan});
  expect_gradient([](const Tensor& x) { return softmax(x, 0)[1]; }, {kInfinity, 0}, {kNan, kNan});
}

TEST(SpecialPoints, OfPowersOfANumber) {
  const Tensor half = leaf({0}, kFloat16);
  sum(pow(70000, half)).backward();
  EXPECT_EQ(values(half.grad()), Numbers{11.15625});
  expect_near(pow(70000, leaf({0, 1, 2, -1}, kFloat16)), {1, kInfinity, kInfinity, 1.430511474609375e-05});
  const auto power_of = [](double base) { return [=](const Tensor& x) { return pow(base, x); }; };
  expect_gradient(power_of(0), {0, 1, -1, kInfinity, kNan}, {0, 0, -kInfinity, 0, kNan});
  expect_gradient(power_of(kInfinity), {0, 1, -1}, {kInfinity, kInfinity, kNan});
  expect_gradient(power_of(2), {0, 1, 3}, {0.6931471806, 1.386294361, 5.545177444});
}

TEST(SpecialPoints, OfPowersOfAFractionAreFloating) {
  const Tensor power = pow(2.5, tensor({1, 2, -1}));
  EXPECT_EQ(power.dtype(), kFloat32);
  expect_near(power, {2.5, 6.25, 0.4});
  EXPECT_THROW(pow(2, tensor({1, 2})), DTypeError);
}

TEST(SpecialPoints, OfPowersOfZero) {
  const Tensor exponents = tensor({-1., 0., 2., -1., -2.5});
  expect_gradient([&](const Tensor& x) { return pow(x, exponents); }, {0, 0, 0, -0., 0},
                  {-kInfinity, 0, 0, -kInfinity, -kInfinity});
  const Tensor zeros_of_both_signs = tensor({0., 0., 0., -0., 0.});
  expect_gradient([&](const Tensor& x) { return pow(zeros_of_both_signs, x); }, {-1, 0, 2, -1, -2.5},
                  {-kInfinity, 0, 0, kInfinity, -kInfinity});
  const auto root = [](const Tensor& x) { return pow(x, 0.5); };
  expect_near(root(tensor({0., 4., -kInfinity, kInfinity})), {0, 2, kNan, kInfinity});
  expect_gradient(root, {0, -0., 4, -kInfinity, kInfinity}, {kInfinity, -kInfinity, 0.25, kNan, 0});
  for (const auto& [exponent, expected] : {std::pair(2., Numbers{1, 0}), std::pair(0., Numbers{1, 1})}) {
    const Tensor power = pow(tensor({true, false}), exponent);
    EXPECT_EQ(power.dtype(), kInt64);
    EXPECT_EQ(values(power), expected);
  }
}

TEST(SpecialPoints, OfRemainders) {
  const Tensor a = tensor({1., 6., -7., kInfinity, 5.5, 1., 1.});
  expect_gradient([&](const Tensor& x) { return remainder(a, x); }, {0.1, 0.2, 2, 1, -2, 0, -kInfinity},
                  {-9, -29, 4, kNan, 3, -kInfinity, 1});
}

TEST(SpecialPoints, OfTheMedian) {
  const auto middle = [](const Tensor& x) { return median(x); };
  expect_gradient(middle, {2, 1, 2, 3, 2}, {1. / 3, 0, 1. / 3, 0, 1. / 3});
  expect_gradient(middle, {1, kNan, 2, kNan}, {0, 0.5, 0, 0.5});
  const Tensor number = leaf({3}).view({});
  EXPECT_EQ(values(gradients({median(number)}, {number})[0]), Numbers{1});
}

TEST(SpecialPoints, OfSmallNormsIn16Bits) {
  const Tensor a = leaf({0.5}, kFloat16), b = leaf({0.5}, kFloat16);
  sum(pairwise_distance(a, b)).backward();
  EXPECT_EQ(values(a.grad()), Numbers{1});
  EXPECT_EQ(values(b.grad()), Numbers{-1});
  const Tensor x = leaf({6e-8, 0}, kFloat16);
  norm(x).backward();
  EXPECT_EQ(values(x.grad()), (Numbers{1, 0}));
}

TEST(SpecialPoints, OfTensorsWithoutElements) {
  for (const auto part : {tril, triu}) {
    const Tensor x = zeros({2, 0, 3}).requires_grad_();
    sum(part(x, 0)).backward();
    EXPECT_EQ(x.grad().sizes(), x.sizes());
  }
  EXPECT_EQ(chunk(zeros({0}), 3).size(), 3u);
  for (const Tensor& piece : chunk(zeros({2, 0}), 2, 1)) EXPECT_EQ(piece.sizes(), (Shape{2, 0}));
}

TEST(SpecialPoints, OfLossesOfTwoDTypesAreTheWiderOne) {
  const Tensor a = ones({3}), b = ones({3}, {.dtype = kFloat64});
  EXPECT_EQ(poisson_nll_loss(a, b).dtype(), kFloat64);
  EXPECT_EQ(poisson_nll_loss(a.to(kFloat16), a).dtype(), kFloat32);
  EXPECT_EQ(gaussian_nll_loss(a, a, b).dtype(), kFloat64);
  EXPECT_EQ(margin_ranking_loss(a, b, a).dtype(), kFloat64);
  EXPECT_EQ(margin_ranking_loss(a, a, b).dtype(), kFloat64);
  EXPECT_EQ(triplet_margin_loss(a, a, b).dtype(), kFloat64);
  EXPECT_EQ(cosine_embedding_loss(a, b, ones({})).dtype(), kFloat64);
  EXPECT_EQ(multilabel_soft_margin_loss(a, b).dtype(), kFloat64);
  EXPECT_EQ(soft_margin_loss(a, b).dtype(), kFloat32);
}

TEST(SpecialPoints, OfClamp) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    const Tensor x = tensor({1., kNan}).to(device);
    for (const ClampOptions& options : {ClampOptions{.min = kNan}, ClampOptions{.max = kNan},
                                        ClampOptions{.min = 0, .max = kNan}, ClampOptions{.min = kNan, .max = 0}})
      expect_values(clamp(x, options), {kNan, kNan});
  }
  expect_values(clamp(tensor({1, 2}), {.min = kNan}), {kNan, kNan});
  const auto clamped = [](const ClampOptions& options) { return [=](const Tensor& x) { return clamp(x, options); }; };
  expect_gradient(clamped({.min = 0, .max = 1}), {-1, 0, 0.5, 1, 2, kNan}, {0, 0, 1, 0, 0, 0});
  expect_gradient(clamped({.min = 0}), {-1, 0, 0.5, kInfinity, kNan}, {0, 0, 1, 1, 0});
  expect_gradient(clamped({.max = 0}), {-1, 0, 0.5, -kInfinity, kNan}, {1, 0, 0, 1, 0});
  expect_gradient(clamped({.min = 1, .max = 1}), {-1, 1, 2}, {0, 0, 0});
  expect_gradient(clamped({.min = kNan}), {-1, 1, kNan}, {0, 0, 0});
}

TEST(SpecialPoints, OfHardSteps) {
  const Numbers at = {-4, -3, -1, 3, 4, kInfinity, -kInfinity, kNan};
  expect_gradient(hardswish, at, {0, 0, 1. / 6, 1, 1, 1, 0, 1});
  expect_gradient(hardsigmoid, at, {0, 0, 1. / 6, 0, 0, 0, 0, 0});
}

TEST(SpecialPoints, OfGeluByTanh) {
  const auto f = [](const Tensor& x) { return gelu(x, GeluForm::tanh); };
  const Tensor huge = tensor({3e38, -3e38, 1e13, -1e13, 11., -11.});
  expect_near(f(huge), {3e38, 0, 1e13, 0, 11, 0});
  expect_gradient(f, {3e38, -3e38, 1e13, -1e13, 20, -20, kNan}, {1, 0, 1, 0, 1, 0, kNan});
  expect_near(f(leaf({60000, -60000}, kFloat16)), {60000, 0});
}

TEST(SpecialPoints, OfMarginsExactlyMet) {
  const Tensor scores = leaf({1, 0, 2, 0, 1, 0}), classes = tensor({0, 1});
  const auto rows = [](const Tensor& x) { return x.view({2, 3}); };
  const auto by_class = [&](std::int64_t p) {
    return [=](const Tensor& x) { return multi_margin_loss(rows(x), classes, {.p = p, .reduction = Reduction::none}); };
  };
  const Numbers at = values(scores);
  expect_gradient(by_class(1), at, {-1. / 3, 0, 1. / 3, 0, 0, 0});
  expect_gradient(by_class(2), at, {-4. / 3, 0, 4. / 3, 0, 0, 0});
  const Tensor labels = tensor({0, -1, 1}).view({1, 3});
  expect_gradient(
      [&](const Tensor& x) {
        return multilabel_margin_loss(x.view({1, 3}), labels);
      },
      {1, 0, 2}, {-1. / 3, 0, 1. / 3});
  const Tensor signs = tensor({1., -1., 1., -1., 1., -1.}), other = tensor({0.5, 1.5, 1.5, 3., 0., 0.});
  expect_gradient(
      [&](const Tensor& x) {
        return margin_ranking_loss(x, other, signs, {.margin = 0.5, .reduction = Reduction::none});
      },
      {1, 1, 2, 2, 0, 0}, {0, 0, 0, 0, -1, 1});
  const Tensor hinges = tensor({1., -1., -1., -1., 1.});
  expect_gradient([&](const Tensor& x) { return hinge_embedding_loss(x, hinges, {.reduction = Reduction::none}); },
                  {1, 1, 0.5, 2, -1}, {1, 0, -1, 0, 1});
  const Tensor positive = tensor({{1., 0.}}), negative = tensor({{2., 0.}});
  expect_gradient(
      [&](const Tensor& x) {
        return triplet_margin_loss(x.view({1, 2}), positive, negative, {.eps = 0});
      },
      {0, 0}, {0, 0});
}

TEST(SpecialPoints, OfBinaryCrossEntropyAreProbabilities) {
  const auto said = [](double x, double target) {
    return message_of<InvalidArgument>([&] { binary_cross_entropy(tensor({0.5, x}), tensor({0.5, target})); });
  };
  EXPECT_EQ(said(1.5, 1),
            "[binary_cross_entropy] expected inputs from 0 to 1, got 1.5; binary_cross_entropy_with_logits takes "
            "numbers of any size");
  EXPECT_EQ(said(0.5, -0.25),
            "[binary_cross_entropy] expected targets from 0 to 1, got -0.25; binary_cross_entropy_with_logits takes "
            "numbers of any size");
  EXPECT_NE(said(kNan, 1).find("inputs from 0 to 1, got nan"), std::string::npos);
  EXPECT_EQ(said(1, 0), "no error");
  EXPECT_NEAR(binary_cross_entropy(tensor({0.5, 0.5}), tensor({true, false})).item<double>(), std::log(2), 1e-6);
  EXPECT_EQ(binary_cross_entropy(zeros({0}), zeros({0}), {.reduction = Reduction::sum}).item<double>(), 0);
  const Tensor targets = tensor({1., 0., 1., 0., 0.5, 0.5});
  expect_gradient([&](const Tensor& x) { return binary_cross_entropy(x, targets, {.reduction = Reduction::none}); },
                  {0, 1, 1, 0, 0, 1}, {-1e12, 1e12, 0, 0, -5e11, 5e11});
}

TEST(SpecialPoints, OfBinaryCrossEntropyAreSaidByTheStream) {
  const SimulatedDevices devices({.count = 1});
  const Tensor x = tensor({0.5, 1.5}).cuda(), target = tensor({0., 1.}).cuda();
  EXPECT_NE(message_of<InvalidArgument>([&] { binary_cross_entropy(x, target).item<double>(); }).find("got 1.5"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::special_points
