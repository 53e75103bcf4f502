#include <lockstep/autograd/autograd.h>

#include "core/text.h"
#include "ops/checks.h"
#include "support/test_devices.h"

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

struct Groups {
  Shape sizes;
  std::int64_t groups;
};

// Groups of one channel, of a few, and of so many that only a warp of a GPU's block takes a channel; channels of one
// element, of whole packs and of other sizes. Against the definition, with its gradients by autograd, on the CPU.
TEST(GroupNorm, OnADeviceAndItsGradients) {
  const TestDevices devices(1);
  for (const Groups& given : std::vector<Groups>{{{2, 6, 5}, 3},
                                                 {{3, 64, 3}, 1},
                                                 {{2, 32, 40}, 32},
                                                 {{1, 4, 9, 7}, 2},
                                                 {{2, 40}, 1},
                                                 {{2, 8, 16, 20}, 2},
                                                 {{5, 70, 4}, 2},
                                                 {{1, 2, 3001}, 1}}) {
    const Shape& sizes = given.sizes;
    const std::int64_t groups = given.groups;
    SCOPED_TRACE(text(sizes, " in ", groups));
    const std::int64_t batch = sizes[0], channels = sizes[1];
    Shape by_channel = Shape::filled(sizes.rank(), 1);
    by_channel[1] = channels;
    const Tensor x = random_doubles(sizes), w = random_doubles({channels}), b = random_doubles({channels}),
                 pull = random_doubles(sizes);
    const auto defined = [&](const Tensor& v, const Tensor& weight, const Tensor& bias) {
      const Tensor rows = v.reshape({batch, groups, v.numel() / batch / groups});
      return normalized(rows, {2}, 1e-5).reshape(sizes) * weight.reshape(by_channel) + bias.reshape(by_channel);
    };
    const auto all_gradients = [&](const Inputs& in, const auto& f, bool again) {
      Inputs leaves;
      for (const Tensor& each : in) leaves.push_back(each.clone().requires_grad_());
      const Inputs y = {f(leaves[0], leaves[1], leaves[2])}, seed = {pull.to(in[0].device())};
      return gradients(y, leaves, seed, {.create_graph = again});
    };
    const auto grouped = [groups](const Tensor& v, const Tensor& weight, const Tensor& bias) {
      return group_norm(v, groups, weight, bias);
    };
    const Tensor expected = defined(x, w, b);
    EXPECT_LT(greatest_difference(grouped(x.cuda(), w.cuda(), b.cuda()).to(Device()), expected), 1e-11);
    EXPECT_LT(greatest_difference(group_norm(x.cuda(), groups).to(Device()), defined(x, ones_like(w), zeros_like(b))),
              1e-11);
    const Inputs wanted = all_gradients({x, w, b}, defined, false);
    for (const bool again : {false, true}) {
      const Inputs got = all_gradients({x.cuda(), w.cuda(), b.cuda()}, grouped, again);
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_LT(greatest_difference(got[i].detach().to(Device()), wanted[i]), 1e-9) << "input " << i;
    }
    for (std::size_t only = 0; only < 3; ++only) {  // the others need no gradient
      Inputs in = {x.cuda(), w.cuda(), b.cuda()};
      in[only].requires_grad_();
      const Inputs y = {grouped(in[0], in[1], in[2])}, seed = {pull.cuda()};
      const Inputs got = gradients(y, Inputs{in[only]}, seed);
      EXPECT_LT(greatest_difference(got[0].to(Device()), wanted[only]), 1e-9) << "input " << only << " alone";
    }
    for (const DType dtype : {kFloat32, kFloat16}) {
      const auto narrow = [dtype](const Tensor& v) { return v.to(dtype).cuda(); };
      const auto wide = [dtype](const Tensor& v) { return v.to(dtype).to(kFloat64); };
      EXPECT_LT(greatest_difference(grouped(narrow(x), narrow(w), narrow(b)).to(Device()).to(kFloat64),
                                    defined(wide(x), wide(w), wide(b))),
                dtype == kFloat32 ? 1e-4 : 2e-2);
    }
  }
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
  for (const double scale : {400., 1e-3}) {  // 400^2 overflows in 16 bits, (1e-3)^2 keeps only a bit
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
