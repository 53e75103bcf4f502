#include <lockstep/autograd/autograd.h>

#include "ops/checks.h"

namespace lockstep {
namespace {

using namespace testing;
using Inputs = std::vector<Tensor>;

double greatest_difference(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item<double>(); }

Tensor normalized(const Tensor& x, const Shape& dims, double eps) {
  const Tensor centered = x - mean(x, dims, true);
  return centered / sqrt(mean(square(centered), dims, true) + eps);
}

TEST(LayerNorm, OverTheLastDimensions) {
  const Tensor x = random_doubles({2, 3, 4}), weight = random_doubles({3, 4}), bias = random_doubles({3, 4});
  EXPECT_LT(greatest_difference(layer_norm(x, {4}), normalized(x, {2}, 1e-5)), 1e-14);
  EXPECT_LT(greatest_difference(layer_norm(x, {3, 4}, weight, bias), normalized(x, {1, 2}, 1e-5) * weight + bias),
            1e-14);
  EXPECT_EQ(layer_norm(zeros({0, 4}), {4}).sizes(), (Shape{0, 4}));
  EXPECT_THROW(layer_norm(x, {3}), ShapeError);
  EXPECT_THROW(layer_norm(x, {4}, random_doubles({3})), ShapeError);
  EXPECT_THROW(layer_norm(x, {4}, zeros({4})), DTypeError);
}

TEST(GroupNorm, OverEachGroup) {
  const Tensor x = random_doubles({2, 6, 5}), weight = random_doubles({6});
  const Tensor expected = normalized(x.view({2, 3, 10}), {2}, 1e-5).view({2, 6, 5}) * weight.view({1, 6, 1});
  EXPECT_LT(greatest_difference(group_norm(x, 3, weight), expected), 1e-14);
  EXPECT_THROW(group_norm(x, 4), ShapeError);
}

TEST(BatchNorm, TrainingUpdatesTheRunningStatistics) {
  const Tensor x = random_doubles({5, 2, 3}) * 3.0 + 1;
  const Tensor average = zeros({2}, {.dtype = kFloat64}), variance = ones({2}, {.dtype = kFloat64});
  EXPECT_LT(greatest_difference(batch_norm(x, average, variance), normalized(x, {0, 2}, 1e-5)), 1e-14);
  EXPECT_LT(greatest_difference(average, mean(x, {0, 2}) * 0.1), 1e-14);
  EXPECT_LT(greatest_difference(variance, var(x, {0, 2}) * 0.1 + 0.9), 1e-14);
}

TEST(BatchNorm, EvaluationTakesTheRunningStatistics) {
  const Tensor x = random_doubles({5, 2});
  const Tensor average = doubles({1, 2}, {2}), variance = doubles({4, 9}, {2});
  const Tensor y = batch_norm(x, average, variance, {}, {}, {.training = false, .eps = 0});
  EXPECT_LT(greatest_difference(y, (x - average) / sqrt(variance)), 1e-14);
  expect_values(average, {1, 2});
}

TEST(BatchNorm, ComputesHalvesInFloat) {
  for (const double scale : {400., 1e-3}) {  // squares of 400 overflow in 16 bits, those of 1e-3 lose all but a bit
    const Tensor wide = (randn({64, 3}) * scale).to(kFloat16).to(kFloat32).requires_grad_();
    const Tensor narrow = wide.detach().to(kFloat16).requires_grad_();
    const Tensor pull = randn({64, 3}).to(kFloat16);
    const BatchNormOptions options = {.training = true, .eps = 1e-12};
    const Tensor expected = batch_norm(wide, {}, {}, {}, {}, options),
                 got = batch_norm(narrow, {}, {}, {}, {}, options);
    EXPECT_LT(greatest_difference(got.detach().to(kFloat32), expected.detach()), 2e-3);
    sum(expected * pull.to(kFloat32)).backward();
    sum((got * pull).to(kFloat32)).backward();
    const Tensor gradient = narrow.grad().to(kFloat32);
    EXPECT_LT(greatest_difference(gradient, wide.grad()), 4e-3 * max(abs(wide.grad())).item<double>());
  }
}

TEST(BatchNorm, Errors) {
  EXPECT_THROW(batch_norm(zeros({1, 3}), {}, {}), ShapeError);
  EXPECT_THROW(batch_norm(zeros({4}), {}, {}), ShapeError);
  EXPECT_THROW(batch_norm(zeros({4, 3}), {}, {}, {}, {}, {.training = false}), InvalidArgument);
  EXPECT_THROW(batch_norm(zeros({4, 3}), zeros({2}), {}), ShapeError);
}

TEST(Normalization, Gradients) {
  const Tensor x = random_doubles({3, 4, 2}).transpose(0, 1), w = random_doubles({3}), b = random_doubles({3});
  expect_gradients(
      [](const Inputs& in) {
        return layer_norm(in[0], {3, 2}, in[1], in[2]);
      },
      {x, random_doubles({3, 2}), random_doubles({3, 2})});
  expect_gradients([](const Inputs& in) { return group_norm(in[0], 1, in[1], in[2]); }, {x, w, b});
  expect_gradients([](const Inputs& in) { return batch_norm(in[0], {}, {}, in[1], in[2]); }, {x, w, b});
  const Tensor average = random_doubles({3}), variance = exp(average);
  expect_gradients(
      [&](const Inputs& in) { return batch_norm(in[0], average, variance, in[1], in[2], {.training = false}); },
      {x, w, b});
}

TEST(LayerNorm, RecordedGradientsOfHalvesDoNotOverflowOnTheWay) {
  const Tensor x = tensor({{300., -300., 5., 7.}}, {.dtype = kFloat16, .requires_grad = true});
  const Inputs y = {layer_norm(x, {4})}, seed = {tensor({{1., 2., 3., 4.}}, {.dtype = kFloat16})};
  const Tensor plain = gradients(y, Inputs{x}, seed, {.retain_graph = true})[0];
  const Tensor recorded = gradients(y, Inputs{x}, seed, {.create_graph = true})[0];
  EXPECT_GT(max(abs(plain.to(kFloat32))).item<double>(), 1e-3);
  EXPECT_LT(greatest_difference(recorded.detach().to(kFloat32), plain.to(kFloat32)), 1e-5);
}

}  // namespace
}  // namespace lockstep
