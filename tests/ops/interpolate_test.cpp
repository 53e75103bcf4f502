// Interpolation beyond the reference vectors: layouts, scales, empty batches, errors. (Values and gradients of every
// mode: reference_test.cpp.)
#include <lockstep/ops/interpolate.h>

#include "core/channels_last.h"
#include "ops/all_ops.h"
#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

Tensor images_last(const Tensor& x) { return x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}); }

TEST(Interpolate, KeepsTheLayoutAndItsValues) {
  const TestDevices devices(1);
  const Tensor x = random_doubles({2, 3, 4, 5});
  for (const Interpolation mode : {Interpolation::nearest, Interpolation::nearest_exact, Interpolation::bilinear,
                                   Interpolation::bicubic, Interpolation::area}) {
    const auto resized = [&](const Tensor& v) { return interpolate(v, {.size = {7, 3}, .mode = mode}); };
    const Tensor plain = resized(x);
    EXPECT_TRUE(plain.is_contiguous());
    for (const Tensor& place : {x, x.cuda()}) {
      const Tensor last = resized(images_last(place));
      EXPECT_TRUE(is_channels_last(last.sizes(), last.strides()));
      EXPECT_LT(largest(last.cpu() - plain), 1e-14);
      EXPECT_LT(largest(weighted_gradient(resized, images_last(place)).cpu() - weighted_gradient(resized, x)), 1e-12);
    }
  }
}

// By the definition: 4 elements to 2, with twice the distance.
TEST(Interpolate, TakesTheElementsThatModesName) {
  const Tensor x = arange(0, 4, 1, {.dtype = kFloat64}).view({1, 1, 4});
  const auto to_two = [&](Interpolation mode, bool corners = false) {
    return interpolate(x, {.size = 2, .mode = mode, .align_corners = corners});
  };
  expect_values(to_two(Interpolation::nearest), {0, 2});
  expect_values(to_two(Interpolation::nearest_exact), {1, 3});
  expect_values(to_two(Interpolation::linear), {0.5, 2.5});
  expect_values(to_two(Interpolation::linear, true), {0, 3});
  expect_values(to_two(Interpolation::area), {0.5, 2.5});
}

TEST(Interpolate, TakesTheScaleFactorAtItsWord) {
  const Tensor x = arange(0, 5, 1, {.dtype = kFloat64}).view({1, 1, 5});
  // 2.5 times 5 gives 12 elements. Their distance is 0.4, or 5 / 12 if recompute_scale_factor.
  const Tensor by_factor = interpolate(x, {.scale_factor = 2.5, .mode = Interpolation::linear});
  const Tensor by_sizes =
      interpolate(x, {.scale_factor = 2.5, .mode = Interpolation::linear, .recompute_scale_factor = true});
  EXPECT_EQ(by_factor.sizes(), (Shape{1, 1, 12}));
  EXPECT_NEAR(by_factor[0][0][5].item<double>(), 5.5 * 0.4 - 0.5, 1e-12);
  EXPECT_EQ(values(by_sizes), values(interpolate(x, {.size = 12, .mode = Interpolation::linear})));
}

// Values from PyTorch 2.15. (Its nearest mode repeats elements in the backward for any rank, but in the forward only
// for two spatial dimensions.)
TEST(Interpolate, CopiesADimensionThatKeepsItsSizeOrIsDoubled) {
  const auto weigh = [](const Tensor& y) { return y * arange(1, double(y.numel() + 1)).view(y.sizes()); };
  const auto run = [&](const Tensor& x, const InterpolateOptions& options, const std::vector<double>& y,
                       const std::vector<double>& gradient) {
    const Tensor in = x.detach().requires_grad_();
    const Tensor out = interpolate(in, options);
    expect_close(out, y, 1e-5);
    expect_close(gradients({sum(weigh(out))}, {in})[0], gradient, 1e-5);
  };
  const Tensor line = tensor({1., 2., 4.}).view({1, 1, 3});
  run(line, {.scale_factor = 1.3, .mode = Interpolation::linear}, {1, 2, 4}, {1, 2, 3});
  run(line, {.scale_factor = 1.3, .mode = Interpolation::nearest}, {1, 2, 4}, {1, 2, 3});
  run(line, {.scale_factor = 2.2, .mode = Interpolation::nearest}, {1, 1, 2, 2, 4, 4}, {3, 7, 11});
  run(line.view({1, 1, 1, 3}), {.scale_factor = {1, 2.2}, .mode = Interpolation::nearest}, {1, 1, 2, 2, 4, 4},
      {3, 7, 11});
  run(line.view({1, 1, 1, 3}).expand({1, 1, 2, 3}), {.scale_factor = {1.3, 1.4}, .mode = Interpolation::bilinear},
      {1, 1.5714285, 2.5714288, 4, 1, 1.5714285, 2.5714288, 4},
      {1.8571428, 3.2857141, 4.8571434, 7.5714283, 8.4285707, 10.0000010});
  expect_close(interpolate(line, {.scale_factor = 1.3, .mode = Interpolation::nearest_exact}), {1, 2, 2}, 0);
}

// Smooth functions are preserved: the weights of every mode sum to 1; linear and cubic modes preserve lines.
TEST(Interpolate, KeepsConstantsAndLines) {
  const Tensor line = arange(0, 9, 1, {.dtype = kFloat64}).view({1, 1, 1, 9}).expand({1, 1, 6, 9});
  const Tensor twice = interpolate(line, {.size = {6, 17}, .mode = Interpolation::bilinear, .align_corners = true});
  EXPECT_LT(largest(twice - arange(0, 17, 1, {.dtype = kFloat64}) / 2), 1e-14);
  for (const Interpolation mode : {Interpolation::nearest, Interpolation::nearest_exact, Interpolation::bilinear,
                                   Interpolation::bicubic, Interpolation::area})
    EXPECT_LT(largest(interpolate(ones({1, 2, 5, 4}), {.size = {8, 3}, .mode = mode}) - 1), 1e-6);
}

TEST(Interpolate, OfAnEmptyBatchIsEmpty) {
  const Tensor x = zeros({0, 3, 4, 4}, {.requires_grad = true});
  const Tensor y = interpolate(x, {.scale_factor = 2, .mode = Interpolation::bicubic});
  EXPECT_EQ(y.sizes(), (Shape{0, 3, 8, 8}));
  sum(y).backward();
  EXPECT_EQ(x.grad().sizes(), x.sizes());
}

TEST(InterpolateErrors, NameWhatIsWrong) {
  const Tensor x = ones({1, 2, 4, 4});
  EXPECT_EQ(message_of<InvalidArgument>([&] { interpolate(x, {}); }),
            "[interpolate] expected either size or scale_factor, got neither");
  EXPECT_EQ(message_of<InvalidArgument>([&] { interpolate(x, {.size = 3, .scale_factor = 2}); }),
            "[interpolate] expected either size or scale_factor, got both");
  EXPECT_EQ(message_of<ShapeError>([&] { interpolate(x, {.size = 3, .mode = Interpolation::linear}); }),
            "[interpolate] expected x [N, C, 1 sizes] for linear, got [1, 2, 4, 4]");
  EXPECT_EQ(message_of<ShapeError>([&] {
              interpolate(ones({4, 4}), {.size = 3});
            }),
            "[interpolate] expected x [N, C, spatial...] with 1 to 3 spatial dimensions, got [4, 4]");
  EXPECT_EQ(message_of<ShapeError>([&] {
              interpolate(x, {.size = {1, 2, 3}});
            }),
            "[interpolate] expected one size, or 2 (one for each dimension), got [1, 2, 3]");
  EXPECT_EQ(message_of<InvalidArgument>([&] { interpolate(x, {.size = 0}); }),
            "[interpolate] expected size of at least 1, got 0");
  EXPECT_EQ(message_of<ShapeError>([&] { interpolate(x, {.scale_factor = 0.2}); }),
            "[interpolate] expected a result of 1 to 2^31 - 1 places, got 0 from 4 with scale_factor 0.2");
  EXPECT_EQ(message_of<ShapeError>([&] {
              interpolate(x, {.scale_factor = {1.0, 2.0, 3.0}});
            }),
            "[interpolate] expected one scale_factor, or 2 (one for each dimension), got 3 of them");
  EXPECT_EQ(message_of<InvalidArgument>([&] { interpolate(x, {.scale_factor = -1}); }),
            "[interpolate] expected a scale_factor above 0, got -1");
  EXPECT_EQ(message_of<InvalidArgument>([&] { interpolate(x, {.scale_factor = kNan}); }),
            "[interpolate] expected a scale_factor above 0, got nan");
  EXPECT_EQ(message_of<InvalidArgument>([&] { interpolate(x, {.size = 3, .align_corners = true}); }),
            "[interpolate] align_corners needs a linear or cubic mode, got nearest");
  EXPECT_EQ(message_of<InvalidArgument>([&] { interpolate(x, {.size = 3, .recompute_scale_factor = true}); }),
            "[interpolate] recompute_scale_factor needs a scale_factor, got none");
  EXPECT_EQ(message_of<DTypeError>([&] { interpolate(x.to(kInt64), {.size = 3}); }),
            "[interpolate] expected a floating dtype, got int64");
}

}  // namespace
}  // namespace lockstep
