// index_copy, index_fill and the like. Values are PyTorch 2.15's.
#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

TEST(IndexCopy, PutsPartsAtPlaces) {
  const Tensor x = zeros({3, 2}), source = tensor({{1., 2.}, {3., 4.}});
  expect_values(index_copy(x, 0, tensor({2, 0}), source), {3, 4, 0, 0, 1, 2});
  expect_values(x.index_copy(-1, tensor({1}), ones({3, 1})), {0, 1, 0, 1, 0, 1});
  expect_values(x, {0, 0, 0, 0, 0, 0});
  Tensor changed = zeros({3, 2});
  changed.index_copy_(0, tensor({2, 2}), source);  // if indices repeat, the last one wins
  expect_values(changed, {0, 0, 0, 0, 3, 4});
}

TEST(IndexCopy, ZeroDimensional) {
  expect_values(tensor(1.).index_copy(0, tensor({0}), tensor({5.})), {5});
  expect_values(tensor({1., 2.}).index_copy(0, tensor(1), tensor(5.)), {1, 5});
}

TEST(IndexCopy, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({2, 3});
  EXPECT_THROW(x.index_copy(0, tensor({-1}), zeros({1, 3})), InvalidArgument);
  EXPECT_THROW(x.index_copy(0, tensor({2}), zeros({1, 3})), InvalidArgument);
  EXPECT_THROW(x.index_copy(0, tensor({0}), zeros({1, 2})), ShapeError);
  EXPECT_THROW(x.index_copy(0, tensor({0, 1}), zeros({1, 3})), ShapeError);
  EXPECT_THROW(x.index_copy(0, tensor({{0}}), zeros({1, 3})), ShapeError);
  EXPECT_THROW(x.index_copy(0, tensor({0}), zeros({1, 3}, kInt64)), DTypeError);
  EXPECT_THROW(x.index_copy(2, tensor({0}), zeros({1, 3})), ShapeError);
}

TEST(IndexFill, PutsOneValueAtPlaces) {
  expect_values(tensor({1., 2., 3.}).index_fill(0, tensor({-1, 0}), 9), {9, 2, 9});
  expect_values(tensor(1.).index_fill(0, tensor({0}), 9), {9});
  expect_values(tensor({true, true}).index_fill(0, tensor({0}), 0), {0, 1});
  expect_values(tensor({1, 1}).index_fill(0, zeros(0, kInt64), 5), {1, 1});
  Tensor x = arange(6).view({2, 3});
  x.index_fill_(1, tensor({1}), tensor(7));
  expect_values(x, {0, 7, 2, 3, 7, 5});
}

TEST(IndexFill, RefusesWhatDoesNotFit) {
  const Tensor x = tensor({1, 1});
  EXPECT_THROW(x.index_fill(0, tensor({2}), 1), InvalidArgument);
  EXPECT_THROW(x.index_fill(0, tensor({-3}), 1), InvalidArgument);
  EXPECT_THROW(x.index_fill(0, tensor({0}), 1.5), DTypeError);
  EXPECT_THROW(x.index_fill(0, tensor({0}), tensor(1.)), DTypeError);
  EXPECT_THROW(x.index_fill(0, tensor({0}), tensor({1, 2})), ShapeError);
  EXPECT_THROW(x.index_fill(0, tensor({0.}), 1), DTypeError);
}

TEST(IndexFill, EqualPlacesCountOnceInTheGradientOfTheValue) {
  const Tensor value = tensor(2., {.requires_grad = true});
  index_fill(zeros({3, 2}), 0, tensor({1, 1}), value).sum().backward();
  EXPECT_DOUBLE_EQ(value.grad().item<double>(), 2);
}

TEST(IndexFill, OnSimulatedDevices) {
  const TestDevices devices(1);
  const Tensor x = random_doubles({4, 3}), source = random_doubles({2, 3}), places = tensor({3, 1});
  expect_same(x.cuda().index_copy(0, places.cuda(), source.cuda()).cpu(), x.index_copy(0, places, source));
  expect_same(x.cuda().index_fill(1, tensor({-1}).cuda(), 2).cpu(), x.index_fill(1, tensor({-1}), 2));
}

TEST(Gather, ByPyTorchsName) {
  expect_values(gather(tensor({{1, 2}, {3, 4}}), 1, tensor({{0, 0}, {1, 0}})), {1, 1, 4, 3});
}

}  // namespace
}  // namespace lockstep
