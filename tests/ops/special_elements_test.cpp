// Edge cases of fmod, addcmul, addcdiv, nan_to_num, clip, mv and grid_sample. Values are PyTorch 2.15's.
#include <lockstep/ops/einsum.h>
#include <lockstep/ops/grid_sample.h>

#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

TEST(Fmod, HasTheSignOfWhatIsDivided) {
  expect_values(fmod(doubles({-3, -2, 2, 3, kInfinity, 5}, {6}), doubles({2, -2, 2, kInfinity, 2, 0}, {6})),
                {-1, -0.0, 0, 3, kNan, kNan});
  expect_values(fmod(tensor({-7, 7, -7, 7}), tensor({3, 3, -3, -3})), {-1, 1, -1, 1});
  expect_values(fmod(tensor({200}, kUInt8), tensor({7}, kUInt8)), {4});
  expect_values(fmod(tensor({1, 2, 3}), 1.5), {1, 0.5, 0});
  expect_values(fmod(tensor({std::numeric_limits<std::int64_t>::min()}), -1), {0});
  Tensor x = tensor({-7., 7.});
  x.fmod_(3);
  expect_values(x, {-1, 1});
  EXPECT_THROW(fmod(tensor({1}), 0), InvalidArgument);
  expect_values(weighted_gradient(
                    [](const Tensor& b) {
                      return fmod(doubles({7, -7}, {2}), b);
                    },
                    doubles({2, 2}, {2})),
                {-3, 6});
  expect_values(weighted_gradient(
                    [](const Tensor& b) {
                      return fmod(doubles({kInfinity, 1}, {2}), b);
                    },
                    doubles({-0.5, kInfinity}, {2})),
                {kInfinity, 0});
}

TEST(NanToNum, PutsFiniteNumbers) {
  const Tensor x = doubles({kNan, kInfinity, -kInfinity, 2}, {4});
  expect_values(nan_to_num(x), {0, std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest(), 2});
  expect_values(nan_to_num(x.to(kFloat32)), {0, 0x1.fffffep127, -0x1.fffffep127, 2});
  expect_values(nan_to_num(x.to(kFloat16)), {0, 65504, -65504, 2});
  expect_values(nan_to_num(x.to(kBFloat16)), {0, 0x1.fep127, -0x1.fep127, 2});
  expect_values(x.nan_to_num(1, 2, 3), {1, 2, 3, 2});
  expect_values(nan_to_num(tensor({1, 2})), {1, 2});
  expect_values(weighted_gradient([](const Tensor& y) { return nan_to_num(y); }, x), {0, 0, 0, 4});
  Tensor changed = x.clone();
  changed.nan_to_num_(-1);
  EXPECT_EQ(changed[0].item<double>(), -1);
}

TEST(Clip, IsClamp) {
  expect_values(tensor({1., 5.}).clip(2), {2, 5});
  expect_values(clip(doubles({1, kNan, 5}, {3}), 2, 3), {2, kNan, 3});
  expect_values(tensor({1., 5.}).clip_(std::nullopt, 2), {1, 2});
}

TEST(Addcmul, OfIntegersAndOfMixedDtypes) {
  expect_values(addcmul(tensor({1, 2}), tensor({3, 4}), tensor({5, 6}), 2), {31, 50});
  const Tensor mixed = addcmul(tensor({1, 2}), tensor({3., 4.}), tensor({5, 6}), 0.5);
  EXPECT_EQ(mixed.dtype(), kFloat32);
  expect_values(mixed, {8.5, 14});
  EXPECT_THROW(addcmul(tensor({1}), tensor({1}), tensor({1}), 0.5), DTypeError);
  EXPECT_THROW(addcmul(tensor({true}), tensor({true}), tensor({true})), DTypeError);
  expect_values(tensor({1., 2.}).addcmul_(tensor({3., 4.}), tensor(2.), -1), {-5, -6});
  EXPECT_THROW(tensor({1.}).addcmul_(tensor({1., 2.}), tensor({1., 2.})), DTypeError);
}

TEST(Addcmul, ZeroDimensionalOnesPromoteByKindAlone) {
  const Tensor half = ones({2}, kFloat16), number = tensor(2.);
  EXPECT_EQ(addcmul(half, number, number).dtype(), kFloat16);
  EXPECT_EQ(addcmul(number, half, number.to(kFloat64)).dtype(), kFloat16);
  EXPECT_EQ(addcmul(ones({2}, kInt64), number, ones({2}, kInt32)).dtype(), kFloat32);
}

TEST(Addcdiv, DividesFloatsAlone) {
  expect_values(addcdiv(tensor({1., 2.}), tensor({3., 0.}), tensor({0., 0.})), {kInfinity, kNan});
  expect_values(tensor({1., 2.}).addcdiv_(tensor({3., 4.}), tensor(2.), 0.5), {1.75, 3});
  EXPECT_THROW(addcdiv(tensor({1}), tensor({1}), tensor({1})), DTypeError);
  EXPECT_EQ(addcdiv(zeros({0, 3}), ones({3}), ones({1})).sizes(), (Shape{0, 3}));
}

TEST(Mv, OfAMatrixAndAVector) {
  expect_values(mv(arange(6, kFloat32).view({2, 3}), tensor({1., 2., 3.})), {8, 26});
  expect_values(zeros({2, 0}).mv(zeros(0)), {0, 0});
  EXPECT_THROW(mv(zeros({2, 2}), zeros(3)), ShapeError);
  EXPECT_THROW(mv(zeros(2), zeros(2)), ShapeError);
  EXPECT_THROW(mv(zeros({2, 2}), zeros({2, 1})), ShapeError);
}

TEST(Einsum, OfOperandsOneAfterAnother) {
  const Tensor a = random_doubles({2, 3}), b = random_doubles({3, 4}), c = random_doubles({4});
  expect_same(einsum("ij,jk->ik", a, b), einsum("ij,jk->ik", {a, b}));
  expect_same(einsum("ij,jk,k->i", a, b, c), einsum("ij,jk,k->i", {a, b, c}));
  expect_same(einsum("ij->ji", a), a.t());
}

const Tensor& square_image() {
  static const Tensor image = tensor({1., 2., 3., 4.}).view({1, 1, 2, 2});
  return image;
}

TEST(GridSample, PlacesThatAreNone) {
  const Tensor grid = doubles({kNan, 0, kInfinity, 0, 5, 5, 0, 0}, {1, 1, 4, 2}).to(kFloat32);
  const auto sampled = [&](std::string_view padding) {
    return grid_sample(square_image(), grid, {.padding_mode = padding, .align_corners = true});
  };
  expect_values(sampled("zeros"), {kNan, kNan, 0, 2.5});
  expect_values(sampled("border"), {2, 3, 4, 2.5});
  expect_values(sampled("reflection"), {2, 2, 4, 2.5});
}

TEST(GridSample, PlacesThatAreNoneGiveTheImageNoGradient) {
  const Tensor image = square_image().clone().requires_grad_();
  const Tensor grid = doubles({kNan, 0, 0, kNan, -5, 0, 0, 0}, {1, 1, 4, 2}).to(kFloat32).requires_grad_();
  const Tensor sampled = grid_sample(image, grid, {.align_corners = true});
  sampled.backward(ones_like(sampled));
  expect_values(image.grad(), {0.25, 0.25, 0.25, 0.25});
  expect_values(grid.grad(), {0, kNan, kNan, 0, 0, 0, 0.5, 1});
}

TEST(GridSample, EmptyOnes) {
  EXPECT_EQ(grid_sample(zeros({1, 2, 2, 2}), zeros({1, 0, 3, 2})).sizes(), (Shape{1, 2, 0, 3}));
  EXPECT_EQ(grid_sample(zeros({0, 2, 2, 2}), zeros({0, 1, 3, 2})).sizes(), (Shape{0, 2, 1, 3}));
  EXPECT_THROW(grid_sample(zeros({1, 2, 0, 2}), zeros({1, 1, 3, 2})), ShapeError);
}

TEST(GridSample, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({1, 2, 2, 2}), grid = zeros({1, 1, 3, 2});
  EXPECT_THROW(grid_sample(x, zeros({2, 1, 3, 2})), ShapeError);
  EXPECT_THROW(grid_sample(x, zeros({1, 1, 3, 3})), ShapeError);
  EXPECT_THROW(grid_sample(x[0], grid[0]), ShapeError);
  EXPECT_THROW(grid_sample(x, grid.to(kFloat64)), DTypeError);
  EXPECT_THROW(grid_sample(x, grid, {.mode = "cubic"}), InvalidArgument);
  EXPECT_THROW(grid_sample(x, grid, {.padding_mode = "mirror"}), InvalidArgument);
}

TEST(VarMean, GivesBoth) {
  const auto [variance, average] = var_mean(tensor({{1., 2.}, {3., 7.}}), 1, {.correction = 0, .keep_dims = true});
  EXPECT_EQ(variance.sizes(), (Shape{2, 1}));
  expect_values(variance, {0.25, 4});
  expect_values(average, {1.5, 5});
  const auto [of_one, itself] = var_mean(tensor({1.}));
  expect_values(of_one, {kNan});
  expect_values(itself, {1});
  const auto [deviation, mean_of_all] = std_mean(tensor({{1., 2.}, {3., 7.}}));
  expect_close(deviation, {2.6299556}, 1e-6);
  expect_values(mean_of_all, {3.25});
}

}  // namespace
}  // namespace lockstep
