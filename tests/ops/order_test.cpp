#include "ops/checks.h"
#include "support/test_devices.h"

#include <algorithm>
#include <numeric>

namespace lockstep {
namespace {

using namespace testing;
using Inputs = std::vector<Tensor>;

TEST(Sort, IsStableAndPutsNanLast) {
  const auto [ordered, places] = sort(doubles({2, kNan, -0.0, 1, 0.0, -kInfinity, kInfinity}, {7}));
  expect_values(places, {5, 2, 4, 3, 0, 6, 1});
  expect_values(ordered, {-kInfinity, -0.0, 0.0, 1, 2, kInfinity, kNan});
  expect_values(argsort(doubles({1, 3, 1, 3, kNan}, {5}), 0, true), {4, 1, 3, 0, 2});
}

TEST(Sort, EveryDtypeAsTheStandardLibrary) {
  const Tensor numbers = randint(0, 40, {3, 50});
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = (is_floating(dtype) ? numbers.to(kFloat32) * 0.5 + -7 : numbers).to(dtype);
    const auto all = values(x);
    std::vector<double> expected;
    for (std::size_t row = 0; row < 3; ++row) {
      std::vector<double> part(all.begin() + std::ptrdiff_t(row * 50), all.begin() + std::ptrdiff_t(row * 50 + 50));
      std::stable_sort(part.begin(), part.end());
      expected.insert(expected.end(), part.begin(), part.end());
    }
    const auto [ordered, places] = sort(x);
    EXPECT_EQ(ordered.dtype(), dtype);
    expect_values(ordered, expected);
    expect_values(gather_elements(x, 1, places), expected);
  }
}

TEST(Sort, NegativeIntegersAndOtherDimensions) {
  expect_values(sort(tensor({{3, -5}, {-9, 4}}), 0).values, {-9, -5, 3, 4});
  expect_values(sort(tensor({{3, -5}, {-9, 4}}).t(), -1, true).values, {3, -9, 4, -5});
}

TEST(Topk, FirstOfEqualOnesFirst) {
  const Tensor x = doubles({1, 5, 5, 3, kNan, 5}, {6});
  expect_values(topk(x, 3).indices, {4, 1, 2});
  expect_values(topk(x, 2, 0, false).values, {1, 3});
  EXPECT_EQ(topk(x, 0).values.sizes(), Shape{0});
  EXPECT_THROW(topk(x, 7), ShapeError);
  EXPECT_THROW(topk(x, 1, 1), ShapeError);
}

TEST(Order, ZeroDimensionalAndEmpty) {
  EXPECT_DOUBLE_EQ(sort(tensor(3.0)).values.item<double>(), 3);
  EXPECT_DOUBLE_EQ(topk(tensor(3.0), 1).values.item<double>(), 3);
  EXPECT_EQ(sort(zeros({2, 0})).indices.sizes(), (Shape{2, 0}));
}

TEST(Cumsum, RunsAlongADimension) {
  expect_values(cumsum(tensor({{1, 2}, {3, 4}}), 0), {1, 2, 4, 6});
  EXPECT_EQ(cumsum(tensor({true, true}), 0).dtype(), kInt64);
  expect_values(cumsum(tensor({{1, 2}, {3, 4}}).t(), 1), {1, 4, 2, 6});
}

// Values here are PyTorch 2.15's.
TEST(Cumprod, RunsAlongADimension) {
  expect_values(cumprod(tensor({{1, 2}, {3, 4}}), 0), {1, 2, 3, 8});
  expect_values(cumprod(tensor({{1, 2}, {3, 4}}).t(), -1), {1, 3, 2, 8});
  expect_values(cumprod(tensor({true, false, true}), 0), {1, 0, 0});
  EXPECT_EQ(cumprod(tensor({true}), 0).dtype(), kInt64);
  expect_values(cumprod(tensor({200, 2}, kUInt8), 0), {200, 400});
  expect_values(cumprod(tensor({std::int64_t(1) << 62, std::int64_t(2)}), 0), {0x1p62, -0x1p63});  // wraps around
  expect_values(cumprod(doubles({2, kNan, 0, kInfinity}, {4}), 0), {2, kNan, kNan, kNan});
  EXPECT_EQ(cumprod(zeros({2, 0}), 1).sizes(), (Shape{2, 0}));
  EXPECT_DOUBLE_EQ(tensor(3.).cumprod(0).item<double>(), 3);
  EXPECT_THROW(cumprod(zeros({2}), 1), ShapeError);
}

TEST(Cumprod, GradientDividesByNoZero) {
  const auto along = [](const Tensor& x) { return cumprod(x, 0); };
  expect_values(weighted_gradient(along, doubles({2, 0, 3, 0, 5}, {5})), {1, 22, 0, 0, 0});
  expect_values(weighted_gradient(along, doubles({3}, {})), {1});
  EXPECT_EQ(weighted_gradient(along, zeros({0}, kFloat64)).sizes(), Shape{0});
}

TEST(Diff, OfNumbersAndBools) {
  expect_values(diff(tensor({1, 4, 9, 16})), {3, 5, 7});
  expect_values(diff(tensor({true, true, false})), {0, 1});
  EXPECT_EQ(diff(tensor({true, true, false})).dtype(), kBool);
  expect_values(diff(tensor({3, 1}, kUInt8)), {254});
  expect_values(diff(tensor({1, 4}), 0), {1, 4});
  EXPECT_EQ(diff(tensor({1, 4}), 5).sizes(), Shape{0});
  EXPECT_EQ(diff(zeros({0, 2}), 1, 0).sizes(), (Shape{0, 2}));
  expect_values(diff(tensor({{1, 4}, {9, 16}}), 1, 0, tensor({{1, 1}}), tensor({{0, 0}})), {0, 3, 8, 12, -9, -16});
  EXPECT_THROW(diff(tensor(1.)), ShapeError);
  EXPECT_THROW(diff(tensor({1.}), -1), InvalidArgument);
}

TEST(Kthvalue, FromOneOn) {
  const Tensor x = doubles({3, 1, 2, 9, kNan, 8}, {2, 3});
  const auto [second, places] = kthvalue(x, 2);
  expect_values(second, {2, 9});
  expect_values(places, {2, 0});
  expect_values(kthvalue(x, 3).values, {3, kNan});
  expect_values(kthvalue(x, 3).indices, {0, 1});
  EXPECT_EQ(x.kthvalue(1, 0, true).values.sizes(), (Shape{1, 3}));
  EXPECT_DOUBLE_EQ(kthvalue(tensor(4.), 1).values.item<double>(), 4);
  EXPECT_EQ(kthvalue(zeros({0, 2}), 1).values.sizes(), Shape{0});
  EXPECT_THROW(kthvalue(tensor({4.}), 2), ShapeError);
  EXPECT_THROW(kthvalue(tensor({4.}), 0), ShapeError);
  EXPECT_THROW(kthvalue(zeros({2, 0}), 1), ShapeError);
}

TEST(Quantile, BetweenTheNearestElements) {
  const Tensor x = tensor({{1., 2.}, {5., 7.}});
  expect_values(quantile(x, 0.25), {1.75});
  const Tensor kept = quantile(x, tensor({0.25, 1.}), 0, true);
  EXPECT_EQ(kept.sizes(), (Shape{2, 1, 2}));
  expect_values(kept, {2, 3.25, 5, 7});
  EXPECT_EQ(quantile(x, 0.5, {}, true).sizes(), (Shape{1, 1}));
  EXPECT_EQ(quantile(x, zeros(0)).sizes(), Shape{0});
  EXPECT_DOUBLE_EQ(quantile(tensor(3.), 0.3).item<double>(), 3);
  EXPECT_DOUBLE_EQ(quantile(arange(1, 12, 1, kFloat32), 0.1).item<double>(), 2);
}

TEST(Quantile, InterpolationsByName) {
  const Tensor x = tensor({1., 2., 4., 8.}), q = tensor({0.5, 0.1, 1.});
  expect_values(quantile(x, q, {}, false, "lower"), {2, 1, 8});
  expect_values(quantile(x, q, {}, false, "higher"), {4, 2, 8});
  expect_values(quantile(x, q, {}, false, "nearest"), {4, 1, 8});
  expect_values(quantile(x, q, {}, false, "midpoint"), {3, 1.5, 8});
  EXPECT_THROW(quantile(x, q, {}, false, "cubic"), InvalidArgument);
}

TEST(Quantile, OfNanAndInfinity) {
  expect_values(quantile(doubles({1, kNan, 3, 1, 2, 4}, {2, 3}), 0.5, 1), {kNan, 2});
  expect_values(quantile(doubles({1, kInfinity, kInfinity}, {3}), 0.75), {kNan});
  expect_values(quantile(doubles({-kInfinity, kInfinity}, {2}), 0.25), {kNan});
}

TEST(Quantile, RefusesWhatIsNone) {
  EXPECT_THROW(quantile(tensor({1.}), 1.5), InvalidArgument);
  EXPECT_THROW(quantile(tensor({1.}), tensor({0.5, kNan})), InvalidArgument);
  EXPECT_THROW(quantile(zeros(0), 0.5), ShapeError);
  EXPECT_THROW(quantile(tensor({1}), 0.5), DTypeError);
  EXPECT_THROW(quantile(tensor({1.}), tensor({0.5}, kFloat64)), DTypeError);
  EXPECT_THROW(quantile(tensor({1.}), zeros({1, 1})), ShapeError);
}

TEST(Order, OnSimulatedDevices) {
  const TestDevices devices(1);
  const Tensor x = random_doubles({4, 5}).t();
  expect_values(sort(x.cuda(), 0).values, values(sort(x, 0).values));
  expect_values(topk(x.cuda(), 2).indices, values(topk(x, 2).indices));
  expect_values(cumsum(x.cuda(), 1), values(cumsum(x, 1)));
  expect_values(cumprod(x.cuda(), 1), values(cumprod(x, 1)));
  const auto along = [](const Tensor& in) { return cumprod(in, 0); };
  expect_values(weighted_gradient(along, x.cuda()), values(weighted_gradient(along, x)));
  expect_values(kthvalue(x.cuda(), 3, 0).values, values(kthvalue(x, 3, 0).values));
  expect_values(quantile(x.cuda(), 0.3, 1), values(quantile(x, 0.3, 1)));
  expect_values(diff(x.cuda()), values(diff(x)));
}

// A GPU sorts up to 32 keys by counting, and merges longer rows.
TEST(Order, LongRowsWithManyEqualKeysOnDevices) {
  const TestDevices devices(1);
  for (const std::int64_t length : {31, 32, 33, 63, 64, 65, 96, 130, 200}) {
    const Tensor rows = randint(-4, 5, {3, length});
    for (const Tensor& x : {rows, rows.t()}) {
      const int dim = x.sizes()[0] == 3 ? 1 : 0;
      std::vector<double> expected, least;
      for (std::int64_t row = 0; row < 3; ++row) {
        const std::vector<double> keys = values(rows[row]);
        std::vector<std::size_t> places(keys.size());
        std::iota(places.begin(), places.end(), 0);
        std::stable_sort(places.begin(), places.end(), [&](auto a, auto b) { return keys[a] < keys[b]; });
        expected.insert(expected.end(), places.begin(), places.end());
        least.insert(least.end(), places.begin(), places.begin() + 7);
      }
      const Tensor places = argsort(x.cuda(), dim), first = topk(x.cuda(), 7, dim, false).indices;
      expect_values(dim == 1 ? places : places.t(), expected);
      expect_values(dim == 1 ? first : first.t(), least);
    }
  }
}

TEST(Order, Gradients) {
  const Inputs x = {random_doubles({2, 3, 4}).transpose(0, 2)};
  expect_gradients([](const Inputs& in) { return sort(in[0], 0, true).values; }, x);
  expect_gradients([](const Inputs& in) { return topk(in[0], 2, 1).values; }, x);
  expect_gradients([](const Inputs& in) { return cumsum(in[0], 1); }, x);
}

}  // namespace
}  // namespace lockstep
