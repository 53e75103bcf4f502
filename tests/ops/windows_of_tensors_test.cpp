// Views by PyTorch's and NumPy's names: unfold, unflatten, swapaxes, tensor_split, open-ended slices. Values are
// PyTorch 2.15's.
#include <array>
#include <optional>

#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

std::vector<std::vector<double>> values_of(const std::vector<Tensor>& parts) {
  std::vector<std::vector<double>> all;
  for (const Tensor& part : parts) all.push_back(values(part));
  return all;
}

TEST(Unfold, IsAViewOfWindows) {
  Tensor x = arange(1, 8);
  const Tensor windows = x.unfold(0, 2, 2);
  EXPECT_EQ(windows.sizes(), (Shape{3, 2}));
  expect_values(windows, {1, 2, 3, 4, 5, 6});
  x[2] = 9;
  expect_values(windows[1], {9, 4});
  expect_values(arange(12).view({3, 4}).unfold(-1, 3, 1)[1], {4, 5, 6, 5, 6, 7});
  EXPECT_EQ(arange(3).unfold(0, 0, 1).sizes(), (Shape{4, 0}));
}

TEST(Unfold, ZeroDimensional) {
  expect_values(tensor(5.).unfold(0, 1, 1), {5});
  EXPECT_EQ(tensor(5.).unfold(0, 1, 1).sizes(), Shape{1});
  EXPECT_EQ(tensor(5.).unfold(0, 0, 1).sizes(), Shape{0});
}

TEST(Unfold, GradientAddsWhatWindowsShare) {
  expect_values(weighted_gradient([](const Tensor& x) { return x.unfold(0, 3, 1); }, zeros({5}, kFloat64)),
                {1, 6, 15, 14, 9});
  const TestDevices devices(1);
  expect_values(weighted_gradient([](const Tensor& x) { return x.unfold(0, 3, 1); }, zeros({5}, "cuda:0")),
                {1, 6, 15, 14, 9});
}

TEST(Unfold, FollowsChangesInPlace) {
  const Tensor x = tensor({1., 2., 3., 4.}, {.requires_grad = true}), h = tensor({5., 6.}, {.requires_grad = true});
  const Tensor y = x * 2, pairs = y.unfold(0, 2, 2);
  y.unfold(0, 2, 2)[1].copy_(h);
  expect_values(pairs, {2, 4, 5, 6});
  (pairs * pairs).sum().backward();
  expect_values(x.grad(), {8, 16, 0, 0});
  expect_values(h.grad(), {10, 12});
}

TEST(Unfold, RefusesWhatIsNoWindow) {
  EXPECT_THROW(arange(3).unfold(0, 4, 1), ShapeError);
  EXPECT_THROW(arange(3).unfold(0, -1, 1), ShapeError);
  EXPECT_THROW(arange(3).unfold(0, 2, 0), ShapeError);
  EXPECT_THROW(arange(3).unfold(1, 2, 1), ShapeError);
}

TEST(Unflatten, DividesADimension) {
  EXPECT_EQ(zeros({2, 6}).unflatten(-1, {3, -1}).sizes(), (Shape{2, 3, 2}));
  EXPECT_EQ(unflatten(zeros({6, 2}).t(), 1, {2, 3}).sizes(), (Shape{2, 2, 3}));
  EXPECT_EQ(zeros({2, 0}).unflatten(1, {0, 3}).sizes(), (Shape{2, 0, 3}));
  EXPECT_THROW(zeros({2, 6}).unflatten(1, {4, 2}), ShapeError);
  EXPECT_THROW(zeros({2, 6}).unflatten(1, Shape()), ShapeError);
  EXPECT_THROW(zeros({2, 6}).unflatten(2, {6}), ShapeError);
  EXPECT_THROW(tensor(1.).unflatten(0, {1}), ShapeError);
}

TEST(Swapaxes, IsTranspose) {
  EXPECT_EQ(zeros({2, 3, 4}).swapaxes(0, -1).sizes(), (Shape{4, 3, 2}));
  EXPECT_EQ(swapdims(zeros({2, 3, 4}), 1, 2).sizes(), (Shape{2, 4, 3}));
}

TEST(TensorSplit, IntoSections) {
  using Parts = std::vector<std::vector<double>>;
  EXPECT_EQ(values_of(tensor_split(arange(7), 3)), (Parts{{0, 1, 2}, {3, 4}, {5, 6}}));
  EXPECT_EQ(values_of(arange(2).tensor_split(4)), (Parts{{0}, {1}, {}, {}}));
  EXPECT_EQ(zeros({2, 5}).tensor_split(2, 1)[1].sizes(), (Shape{2, 2}));
  EXPECT_THROW(tensor_split(arange(8), 0), InvalidArgument);
  EXPECT_THROW(tensor_split(tensor(1), 2), ShapeError);
}

TEST(TensorSplit, AtPlaces) {
  using Parts = std::vector<std::vector<double>>;
  EXPECT_EQ(values_of(tensor_split(arange(8), {1, 6, -1})), (Parts{{0}, {1, 2, 3, 4, 5}, {6}, {7}}));
  EXPECT_EQ(values_of(tensor_split(arange(8), {6, 2, 20})), (Parts{{0, 1, 2, 3, 4, 5}, {}, {2, 3, 4, 5, 6, 7}, {}}));
  EXPECT_EQ(values_of(arange(3).tensor_split(std::vector<std::int64_t>())), (Parts{{0, 1, 2}}));
}

TEST(Slice, FromTheStartAndToTheEnd) {
  expect_values(arange(5).slice(0, 2), {2, 3, 4});
  expect_values(arange(5).slice(0, -2), {3, 4});
  expect_values(arange(5).slice(0, std::nullopt, 2), {0, 1});
  expect_values(arange(5).slice(0, std::nullopt, std::nullopt, 2), {0, 2, 4});
}

TEST(TensorOf, AnArray) {
  const Tensor x = tensor(std::array{1, 2, 3});
  EXPECT_EQ(x.dtype(), kInt64);
  expect_values(x, {1, 2, 3});
  EXPECT_EQ(tensor(std::array{1.5, 2.5}).dtype(), kFloat32);
  EXPECT_EQ(tensor(std::array{1.5, 2.5}, kFloat64).dtype(), kFloat64);
  EXPECT_EQ(tensor(std::array<float, 0>()).sizes(), Shape{0});
}

}  // namespace
}  // namespace lockstep
