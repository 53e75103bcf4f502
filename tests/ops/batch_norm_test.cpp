// batch_norm and instance_norm of images: every memory layout against the definition, on every device.
#include <lockstep/ops/normalization.h>

#include <gtest/gtest.h>

#include <lockstep/autograd/autograd.h>

#include "ops/checks.h"
#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep {
namespace {

using namespace testing;

Tensor normalized_over(const Tensor& x, const Shape& dims, double eps) {
  const Tensor centered = x - mean(x, dims, true);
  return centered / sqrt(mean(square(centered), dims, true) + eps);
}

double distance(const Tensor& a, const Tensor& b) {
  return max(abs(a.detach().cpu().to(kFloat64) - b.detach().cpu().to(kFloat64))).item<double>();
}

Tensor channels_last(const Tensor& x) { return x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}); }
Tensor with_gaps(const Tensor& x) {
  Tensor room = zeros({x.size(0), x.size(1), x.size(2), 2 * x.size(3)}, {.dtype = x.dtype(), .device = x.device()});
  return room.slice(3, 0, 2 * x.size(3), 2).copy_(x);
}

// More channels than one task takes, more rows than one partial sum has, and values far from zero.
TEST(BatchNormOfImages, IsTheDefinitionInEveryLayout) {
  const TestDevices devices(1);
  for (const Shape& sizes : {Shape{3, 5, 14, 11}, Shape{2, 300, 3, 2}, Shape{4, 1, 3, 5}, Shape{700, 3, 1, 1}}) {
    const Tensor x = random_doubles(sizes) + 30, pull = random_doubles(sizes);
    const Tensor weight = random_doubles({sizes[1]}), bias = random_doubles({sizes[1]});
    const Shape each = {sizes[1], 1, 1};
    const auto results = [&](const auto& f, const Tensor& from, const Tensor& w, const Tensor& b) {
      const Tensor p = from.detach().requires_grad_(), q = w.detach().requires_grad_(), r = b.detach().requires_grad_();
      const Tensor y = f(p, q, r);
      sum(y * pull.to(from.device(), from.dtype())).backward();
      return std::vector{y, p.grad(), q.grad(), r.grad()};
    };
    const auto expected = results(
        [&](const Tensor& p, const Tensor& q, const Tensor& r) {
          return normalized_over(p, {0, 2, 3}, 1e-5) * q.view(each) + r.view(each);
        },
        x, weight, bias);
    for (const Device& device : {Device(), Device("cuda:0")})
      for (const DType dtype : {kFloat32, kFloat64}) {
        const Tensor at = x.to(device, dtype);
        for (const Tensor& laid : {at, channels_last(at), with_gaps(at)}) {
          const auto got =
              results([](const Tensor& p, const Tensor& q, const Tensor& r) { return batch_norm(p, {}, {}, q, r); },
                      laid, weight.to(device, dtype), bias.to(device, dtype));
          for (std::size_t i = 0; i < 4; ++i)
            EXPECT_LT(distance(got[i], expected[i]), (dtype == kFloat64 ? 1e-10 : 2e-3))
                << sizes << ' ' << dtype << ' ' << i;
        }
      }
  }
}

// 16-bit elements, pieces of several channels and of one, and updated running statistics.
TEST(BatchNormOfImages, OfHalvesIsTheDefinitionAndMovesTheStatistics) {
  const TestDevices devices(1);
  manual_seed(9);
  for (const DType dtype : {kFloat16, kBFloat16})
    for (const Shape& sizes : {Shape{3, 5, 14, 11}, Shape{2, 24, 4, 4}, Shape{900, 16, 2, 2}, Shape{2, 3, 130, 128}}) {
      const Tensor x = (randn(sizes) * 2 + 1).to(dtype), pull = randn(sizes).to(dtype);
      const Tensor weight = randn({sizes[1]}).to(dtype), bias = randn({sizes[1]}).to(dtype);
      const Shape each = {sizes[1], 1, 1};
      Tensor p = x.to(kFloat64).requires_grad_(), q = weight.to(kFloat64).requires_grad_(),
             r = bias.to(kFloat64).requires_grad_();
      const Tensor expected = normalized_over(p, {0, 2, 3}, 1e-5) * q.view(each) + r.view(each);
      sum(expected * pull.to(kFloat64)).backward();
      for (const Device& device : {Device(), Device("cuda:0")})
        for (const bool last : {false, true}) {
          SCOPED_TRACE(::testing::Message() << sizes << ' ' << dtype << ' ' << device << " channels-last " << last);
          const Tensor there = x.to(device);
          Tensor a = (last ? channels_last(there) : there).detach().requires_grad_(),
                 b = weight.to(device).detach().requires_grad_(), c = bias.to(device).detach().requires_grad_();
          const Tensor average = zeros({sizes[1]}, {.dtype = dtype, .device = device}),
                       variance = ones({sizes[1]}, {.dtype = dtype, .device = device});
          const Tensor y = batch_norm(a, average, variance, b, c);
          sum(y * pull.to(device)).backward();
          const double unit = dtype == kFloat16 ? 1e-3 : 8e-3;
          const auto close = [&](const Tensor& got, const Tensor& of) {
            return distance(got, of) / max(abs(of.detach())).item<double>();
          };
          EXPECT_LT(close(y, expected), 2 * unit);
          EXPECT_LT(close(a.grad(), p.grad()), 3 * unit);
          EXPECT_LT(close(b.grad(), q.grad()), 3 * unit);
          EXPECT_LT(close(c.grad(), r.grad()), 3 * unit);
          const Tensor wide = x.to(kFloat64);
          EXPECT_LT(distance(average, mean(wide, {0, 2, 3}) * 0.1), 2 * unit);
          EXPECT_LT(distance(variance, var(wide, {0, 2, 3}) * 0.1 + 0.9), 4 * unit);
          const NoGrad guard;
          const Tensor evaluated = batch_norm(a, average, variance, b, c, {.training = false});
          const auto wide_of = [](const Tensor& t) { return t.detach().cpu().to(kFloat64); };
          const Tensor by_definition =
              (wide - wide_of(average).view(each)) / sqrt(wide_of(variance).view(each) + 1e-5) * wide_of(b).view(each) +
              wide_of(c).view(each);
          EXPECT_LT(close(evaluated, by_definition), 2 * unit);
        }
    }
}

TEST(BatchNormOfImages, KeepsTheirLayout) {
  const Tensor x = channels_last(randn({2, 3, 4, 5}));
  EXPECT_EQ(batch_norm(x, {}, {}).strides(), x.strides());
}

TEST(InstanceNorm, NormalizesEachImage) {
  const Tensor x = random_doubles({2, 3, 4, 5}), weight = random_doubles({3}), bias = random_doubles({3});
  const Tensor expected = normalized_over(x, {2, 3}, 1e-5) * weight.view({3, 1, 1}) + bias.view({3, 1, 1});
  EXPECT_LT(distance(instance_norm(x, {}, {}, weight, bias), expected), 1e-13);
  const Tensor average = zeros({3}, {.dtype = kFloat64}), variance = ones({3}, {.dtype = kFloat64});
  instance_norm(x, average, variance);
  EXPECT_LT(distance(average, mean(x, {0, 2, 3}) * 0.1), 1e-14);
  EXPECT_LT(distance(variance, mean(var(x, {2, 3}), {0}) * 0.1 + 0.9), 1e-14);
  EXPECT_LT(distance(instance_norm(x, average, variance, {}, {}, {.training = false}),
                     batch_norm(x, average, variance, {}, {}, {.training = false})),
            1e-14);
  EXPECT_EQ(thrown<ShapeError>([] {
              instance_norm(zeros({2, 3, 1}));
            }),
            "[instance_norm] expected more than one element for each channel of each image, got [2, 3, 1]");
}

}  // namespace
}  // namespace lockstep
