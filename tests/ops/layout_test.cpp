#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;
using Inputs = std::vector<Tensor>;

TEST(Flip, ReversesEachDimensionGiven) {
  const Tensor x = arange(6).view({2, 3});
  expect_values(flip(x, {1}), {2, 1, 0, 5, 4, 3});
  expect_values(flip(x, {0, -1}), {5, 4, 3, 2, 1, 0});
  expect_values(flip(x.t(), {0}), {2, 5, 1, 4, 0, 3});
  expect_values(flip(x, Shape{}), {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(flip(zeros({0, 2}), {0}).sizes(), (Shape{0, 2}));
  EXPECT_THROW(flip(x, {0, 0}), ShapeError);
}

TEST(Layout, MovesEveryDtype) {
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = tensor({{0, 1}, {1, 1}}).to(dtype);
    for (const Tensor& y : {flip(x, {0}), roll(x, {1}, {0}), tril(x), pad(x, {1, 0}), repeat(x, {2, 1})})
      EXPECT_EQ(y.dtype(), dtype);
    expect_values(tril(x), {0, 0, 1, 1});
    expect_values(flip(x, {0, 1}), {1, 1, 1, 0});
  }
}

TEST(Roll, WrapsAround) {
  const Tensor x = arange(6).view({2, 3});
  expect_values(roll(x, {1}, {1}), {2, 0, 1, 5, 3, 4});
  expect_values(roll(x, {-4, 1}, {1, 0}), {4, 5, 3, 1, 2, 0});
  EXPECT_FALSE(roll(x, {3}, {1}).data<std::int64_t>() == x.data<std::int64_t>());
  EXPECT_THROW(roll(x, {1, 2}, {0}), ShapeError);
  EXPECT_THROW(roll(x, {1}, {2}), ShapeError);
}

TEST(Pad, AddsAndCuts) {
  const Tensor x = arange(6).view({2, 3});
  expect_values(pad(x, {1, 0}, 9), {9, 0, 1, 2, 9, 3, 4, 5});
  expect_values(pad(x, {0, 0, 1, 0}), {0, 0, 0, 0, 1, 2, 3, 4, 5});
  expect_values(pad(x, {-1, 1}, 7), {1, 2, 7, 4, 5, 7});
  EXPECT_EQ(pad(x, {-2, -1}).sizes(), (Shape{2, 0}));
  EXPECT_THROW(pad(x, {1}), ShapeError);
  EXPECT_THROW(pad(x, {-4, 0}), ShapeError);
  EXPECT_THROW(pad(x, {1, 1, 1, 1, 1, 1}), ShapeError);
}

TEST(Triangle, DiagonalsOfRectangles) {
  const Tensor x = ones({3, 4});
  expect_values(tril(x), {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0});
  expect_values(triu(x, 2), {0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0});
  expect_values(tril(x, -3), std::vector<double>(12, 0));
  expect_values(triu(x, -100), std::vector<double>(12, 1));
  const Tensor batch = random_doubles({2, 3, 3}).transpose(1, 2);
  expect_values(tril(batch) + triu(batch, 1), values(batch));
  EXPECT_THROW(tril(zeros({3})), ShapeError);
}

TEST(Repeat, WholeOrEach) {
  const Tensor x = tensor({{1, 2}});
  expect_values(repeat(x, {2, 2}), {1, 2, 1, 2, 1, 2, 1, 2});
  EXPECT_EQ(repeat(x, {3, 1, 2}).sizes(), (Shape{3, 1, 4}));
  EXPECT_EQ(repeat(x, {0, 1}).sizes(), (Shape{0, 2}));
  expect_values(repeat_interleave(x, 2, 1), {1, 1, 2, 2});
  EXPECT_THROW(repeat(x, {2}), ShapeError);
  EXPECT_THROW(repeat_interleave(x, -1, 0), ShapeError);
}

TEST(Repeat, OfAsManyDimensionsAsThereCanBe) {
  const Tensor x = tensor({{1, 2}, {3, 4}}), deep = x.reshape({1, 1, 2, 1, 1, 2, 1, 1});
  EXPECT_EQ(repeat(deep, {2, 1, 2, 1, 1, 2, 1, 3}).sizes(), (Shape{2, 1, 4, 1, 1, 4, 1, 3}));
  EXPECT_EQ(values(repeat(deep, {2, 1, 2, 1, 1, 2, 1, 1})), values(repeat(x, {2, 2, 2})));
  EXPECT_EQ(values(repeat(x.reshape({2, 1, 1, 1, 2}), {2, 2, 1, 3, 2})),
            values(repeat(x.reshape({2, 1, 2}), {2, 6, 2})));
  EXPECT_EQ(repeat_interleave(deep, 2, 5).sizes(), (Shape{1, 1, 2, 1, 1, 4, 1, 1}));
  expect_values(repeat_interleave(deep, 2, 5), {1, 1, 2, 2, 3, 3, 4, 4});
}

TEST(Layout, OnSimulatedDevices) {
  const TestDevices devices(1);
  const Tensor x = random_doubles({3, 4});
  const auto check = [&](const auto& op) { expect_values(op(x.cuda().t()), values(op(x.t()))); };
  check([](const Tensor& t) { return flip(t, {1}); });
  check([](const Tensor& t) { return roll(t, {1}, {0}); });
  check([](const Tensor& t) { return pad(t, {1, -1, 2, 0}, 3); });
  check([](const Tensor& t) { return triu(t); });
  check([](const Tensor& t) { return repeat(t, {2, 1, 3}); });
}

TEST(Layout, Gradients) {
  const Inputs x = {random_doubles({2, 3, 4}).transpose(0, 2)};
  expect_gradients([](const Inputs& in) { return flip(in[0], {0, 2}); }, x);
  expect_gradients([](const Inputs& in) { return roll(in[0], {1, -2}, {0, 1}); }, x);
  expect_gradients([](const Inputs& in) { return pad(in[0], {1, -1, 2, 0}, 3); }, x);
  expect_gradients([](const Inputs& in) { return tril(in[0], 1); }, x);
  expect_gradients([](const Inputs& in) { return repeat(in[0], {2, 1, 3, 1}); }, x);
  expect_gradients([](const Inputs& in) { return repeat_interleave(in[0], 2, 1); }, x);
}

// The gradient of a view is zeros of its base's shape, except in the view.
TEST(Views, Gradients) {
  const Inputs x = {random_doubles({4, 3})};
  expect_gradients([](const Inputs& in) { return square(in[0].select(1, 2)); }, x);
  expect_gradients([](const Inputs& in) { return square(in[0].slice(0, 1, 4, 2)); }, x);
  expect_gradients([](const Inputs& in) { return square(in[0].permute({1, 0})); }, x);
  expect_gradients([](const Inputs& in) { return square(in[0].unsqueeze(1).expand({4, 2, 3})); }, x);
  expect_gradients([](const Inputs& in) { return square(in[0].reshape({2, 6})); }, x);
  expect_gradients([](const Inputs& in) { return square(cat({in[0], in[0].narrow(0, 1, 2)})); }, x);
  expect_gradients([](const Inputs& in) { return square(stack({in[0], in[0]}, 1)); }, x);
  expect_gradients(
      [](const Inputs& in) {
        const auto parts = chunk(in[0], 3);
        return parts[0] * parts[1];
      },
      {random_doubles({6, 2})});
}

TEST(Flip, OfOneElement) {
  expect_values(flip(tensor(2.), {0}), {2});
  expect_values(flip(ones({1, 1, 1}), {0, 2}), {1});
  Tensor x = tensor({3.}, {.requires_grad = true});
  sum(cumsum(x, 0)).backward();
  expect_values(x.grad(), {1});
}

TEST(Layout, CopiesWhereNothingMoves) {
  const Tensor x = tensor({1., 2.}), one = tensor({3.}), scalar = tensor(4.);
  for (Tensor result : {repeat(x, {1}), repeat(x, {3, 1}), repeat_interleave(x, 1, 0), repeat_interleave(one, 4, 0),
                        repeat(one, {2, 5}), roll(x, {2}, {0}), roll(scalar, {1}, {0})})
    result.add_(10);
  expect_values(x, {1, 2});
  expect_values(one, {3});
  expect_values(scalar, {4});
  EXPECT_THROW(roll(scalar, {1}, {1}), ShapeError);
}

}  // namespace
}  // namespace lockstep
