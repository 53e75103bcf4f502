// Assignment to a tensor: assignment to a named tensor rebinds the handle, assignment to a temporary writes elements.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <tuple>
#include <utility>

#include <lockstep/runtime/memory.h>

#include "ops/all_ops.h"
#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;
using Numbers = std::vector<double>;

TEST(Assignment, ToAnIndexedTensorWritesThrough) {
  const Tensor x = zeros({2, 3});
  const Tensor row = tensor({1., 2., 3.});
  x[1] = row;
  EXPECT_EQ(values(x), (Numbers{0, 0, 0, 1, 2, 3}));
  x.select(1, 0) = tensor({7., 8.});
  EXPECT_EQ(values(x), (Numbers{7, 0, 0, 8, 2, 3}));
  x.index({0, Slice(1, 3)}) = tensor({4., 5.});
  EXPECT_EQ(values(x), (Numbers{7, 4, 5, 8, 2, 3}));
  x[0] = x[1];
  EXPECT_EQ(values(x), (Numbers{8, 2, 3, 8, 2, 3}));
}

TEST(Assignment, ToATemporaryBroadcastsConvertsAndTakesNumbers) {
  const Tensor x = zeros({2, 2});
  x[0] = 3.5;
  x[1] = tensor({4});
  EXPECT_EQ(values(x), (Numbers{3.5, 3.5, 4, 4}));
  x.t()[0] = 2;
  EXPECT_EQ(values(x), (Numbers{2, 3.5, 2, 4}));
}

TEST(Assignment, InARowWritesEach) {
  const Tensor x = zeros({3});
  x[0] = x[1] = tensor(5.);
  EXPECT_EQ(values(x), (Numbers{5, 5, 0}));
}

TEST(Assignment, OfAMovedTensorToATemporaryCopiesItsElements) {
  const Tensor x = zeros({2, 1});
  Tensor row = ones({1});
  x[0] = std::move(row);
  std::move(x[1]) = full({1}, 2.);
  EXPECT_EQ(values(x), (Numbers{1, 2}));
}

TEST(Assignment, ToATemporaryCountsAsAChangeInPlace) {
  const Tensor x = zeros({2});
  const std::uint64_t before = x.version();
  x[0] = 1;
  EXPECT_GT(x.version(), before);
  const Tensor leaf = zeros({2}, {.requires_grad = true});
  EXPECT_THROW(leaf[0] = 1, AutogradError);
  EXPECT_EQ(values(leaf), (Numbers{0, 0}));
}

TEST(Assignment, ToATemporaryIsDifferentiable) {
  const Tensor source = ones({2}, {.requires_grad = true});
  Tensor whole = zeros({3, 2});
  std::move(whole) = source;
  sum(whole * whole).backward();
  EXPECT_EQ(values(source.grad()), (Numbers{6, 6}));
}

TEST(Assignment, ToATemporaryRefusesWhatDoesNotFitAndWhatIsUndefined) {
  const Tensor x = zeros({2, 3});
  EXPECT_THROW(x[0] = ones({2}), ShapeError);
  EXPECT_THROW(x[0] = Tensor(), InvalidArgument);
  EXPECT_THROW(x[0] = {}, InvalidArgument);
  EXPECT_THROW(Tensor() = x, InvalidArgument);
  EXPECT_THROW(Tensor() = 1, InvalidArgument);
  EXPECT_THROW(x.grad() = x, InvalidArgument);
  EXPECT_EQ(values(x), (Numbers{0, 0, 0, 0, 0, 0}));
}

TEST(Assignment, ToANamedTensorTakesTheHandle) {
  Tensor x = zeros({2});
  const Tensor was = x, other = ones({3});
  x = other;
  EXPECT_TRUE(x.is_same(other));
  EXPECT_EQ(values(was), (Numbers{0, 0}));
  x = was[0];
  EXPECT_EQ(x.dim(), 0);
  x = {};
  EXPECT_FALSE(x.defined());
}

TEST(Assignment, OfATensorThatIsGivenReleasesWhatWasHeldAtOnce) {
  const TestDevices devices(1);
  const auto in_use = [] { return memory_stats("cuda:0").in_use; };
  Tensor a = zeros({1000}, {.device = "cuda:0"});
  const std::size_t of_a = in_use();
  Tensor b = zeros({1}, {.device = "cuda:0"});
  const std::size_t of_b = in_use() - of_a;
  a = std::move(b);
  EXPECT_EQ(in_use(), of_b);
  EXPECT_FALSE(b.defined());
}

TEST(Assignment, ThroughReferencesTakesTheHandle) {
  Tensor a = zeros({1}), b = ones({1});
  const Tensor was_a = a, was_b = b;
  std::swap(a, b);
  EXPECT_TRUE(a.is_same(was_b) && b.is_same(was_a));
  EXPECT_TRUE(std::exchange(a, was_a).is_same(was_b));
  std::tie(a, b) = std::pair(was_b, was_a);
  EXPECT_TRUE(a.is_same(was_b) && b.is_same(was_a));
  std::pair<Tensor, Tensor> both(was_a, was_a);
  auto& [first, second] = both;
  first = was_b;
  std::get<1>(both) = was_b;
  EXPECT_TRUE(both.first.is_same(was_b) && both.second.is_same(was_b));
}

TEST(Assignment, InsideContainersTakesTheHandle) {
  const Tensor a = zeros({1}), b = ones({1});
  std::vector<Tensor> list = {a, a, b};
  list[0] = b;
  list.erase(list.begin() + 1);
  list.insert(list.begin(), a);
  EXPECT_TRUE(list[0].is_same(a) && list[1].is_same(b) && list[2].is_same(b));
  std::array<Tensor, 1> array = {a};
  array = std::array<Tensor, 1>{b};
  std::map<std::string, Tensor> named = {{"x", a}};
  named["x"] = b;
  std::optional<Tensor> maybe = a;
  maybe = b;
  struct Pair {
    Tensor x, y;
  } pair = {a, a};
  pair = Pair{b, b};
  for (const Tensor& each : {array[0], named["x"], *maybe, pair.x, pair.y}) EXPECT_TRUE(each.is_same(b));
  EXPECT_EQ(values(a), (Numbers{0}));
}

TEST(Assignment, MovesLetGoOfWhatWasHeldAtOnce) {
  Tensor x = zeros({1}), y = ones({1});
  const Tensor was = y;
  x = std::move(y);
  EXPECT_FALSE(y.defined());
  EXPECT_TRUE(x.is_same(was));
  Tensor& same = x;
  x = std::move(same);
  EXPECT_TRUE(x.is_same(was));
}

}  // namespace
}  // namespace lockstep
