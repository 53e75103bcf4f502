#include <lockstep/autograd/autograd.h>

#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;
using Inputs = std::vector<Tensor>;

TEST(Reduce, IntegersAndBoolAddToInt64) {
  const Tensor bytes = tensor({200, 100}, {.dtype = kUInt8});
  EXPECT_EQ(sum(bytes).dtype(), kInt64);
  EXPECT_EQ(sum(bytes).item<int>(), 300);
  EXPECT_EQ(sum(tensor({true, false, true})).item<int>(), 2);
  EXPECT_EQ(prod(bytes).item<int>(), 20000);
}

// Enough rows that a GPU uses a warp for each, not a block.
TEST(Reduce, SumsManyLongRows) {
  if (are_simulated()) GTEST_SKIP() << "it is the choice of a GPU's kernels";
  const TestDevices devices(1);
  const Tensor x = rand({8200, 1028});
  const Tensor expected = sum(x.to(kFloat64), {1}), got = sum(x.to("cuda:0"), {1}).to("cpu", kFloat64);
  EXPECT_LT(max(abs(got - expected) / expected).item<double>(), 1e-6);
}

TEST(Reduce, IntegersWrapAround) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
  const Tensor x = tensor(std::vector{most, most, most});  // 3 (2^63 - 1) = 2^63 - 3
  EXPECT_EQ(sum(x).item<std::int64_t>(), most - 2);
  EXPECT_EQ(prod(x).item<std::int64_t>(), most);  // (2^63 - 1)^3 = 3 * 2^63 - 1
  EXPECT_EQ(cumsum(x, 0).to_vector<std::int64_t>(), (std::vector{most, std::int64_t(-2), most - 2}));
  EXPECT_EQ(abs(tensor(std::vector{least})).item<std::int64_t>(), least);
}

TEST(Reduce, NothingToReduce) {
  const Tensor none = zeros({0, 3});
  expect_values(sum(none, {0}), {0, 0, 0});
  expect_values(prod(none, {0}), {1, 1, 1});
  expect_values(mean(none, {0}), {kNan, kNan, kNan});
  expect_values(logsumexp(none, {0}), {-kInfinity, -kInfinity, -kInfinity});
  for (const DType dtype : {kFloat32, kBFloat16})  // more columns than are added at once
    expect_values(sum(zeros({0, 3000}, {.dtype = dtype}), {0}), std::vector<double>(3000));
  EXPECT_THROW(amax(none, {0}), ShapeError);
  EXPECT_THROW(max(none), ShapeError);
  EXPECT_THROW(argmin(none, 0), ShapeError);
  EXPECT_THROW(argmax(none), ShapeError);
  EXPECT_EQ(amax(none, {1}).sizes(), Shape{0});
}

TEST(Reduce, DimensionsAreChecked) {
  const Tensor x = zeros({2, 3});
  EXPECT_THROW(sum(x, {2}), ShapeError);
  EXPECT_EQ(message_of<ShapeError>([&] { amax(x, {0, -2}); }), "[amax] expected each dimension once, got [0, -2]");
  EXPECT_THROW(var(x, {1, 1}), ShapeError);
  EXPECT_THROW(norm(x, 2, {-3}), ShapeError);
  EXPECT_THROW(mean(zeros({2}, {.dtype = kInt64})), DTypeError);
  EXPECT_THROW(norm(zeros({2}, {.dtype = kInt64})), DTypeError);
  EXPECT_THROW(sum(Tensor()), InvalidArgument);
}

TEST(Reduce, ZeroDimensionalTensorsAnswerToDimension0) {
  const Tensor x = tensor(3.0);
  for (const Tensor& y : {sum(x, {0}), prod(x, {-1}), amax(x, {0}), norm(x, 2, {0}), logsumexp(x, {0})}) {
    EXPECT_EQ(y.dim(), 0);
    EXPECT_NEAR(y.item<double>(), 3, 1e-6);
  }
  EXPECT_EQ(argmax(x).item<int>(), 0);
  EXPECT_EQ(argmax(x, 0).dim(), 0);
}

// Simulated devices compute each kernel on one thread, the CPU on all.
TEST(Reduce, OrderOfAdditionDoesNotDependOnThreads) {
  SimulatedDevices devices({.count = 1});
  const Tensor x = randn({300000}), wide = randn({700, 900});
  EXPECT_EQ(values(sum(x)), values(sum(x.cuda())));
  EXPECT_EQ(values(norm(x)), values(norm(x.cuda())));
  for (const Shape& dims : {Shape{0}, Shape{1}, Shape{0, 1}})
    EXPECT_EQ(values(sum(wide, dims)), values(sum(wide.cuda(), dims)));
}

TEST(AnyAll, AreWhetherElementsAreNotZero) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    const Tensor x = tensor({{0., 2., 0.}, {0., kNan, -0.}, {1., 1., 0.5}}).to(device);
    EXPECT_EQ(flags(any(x, {0})), (std::vector{1, 1, 1}));
    EXPECT_EQ(flags(all(x, {0})), (std::vector{0, 1, 0}));
    EXPECT_EQ(flags(any(x, {1})), (std::vector{1, 1, 1}));
    EXPECT_EQ(flags(all(x, {1})), (std::vector{0, 0, 1}));
    EXPECT_EQ(all(x, {1}, true).sizes(), (Shape{3, 1}));
    EXPECT_EQ(flags(any(x)), std::vector{1});
    EXPECT_EQ(flags(all(x)), std::vector{0});
    EXPECT_EQ(flags(any(x.narrow(1, 2, 1).narrow(0, 0, 2))), std::vector{0});
  }
  EXPECT_EQ(flags(all(tensor({256, -256}))), std::vector{1});
  EXPECT_EQ(flags(any(full({1 << 17}, 1, {.dtype = kFloat16}))), std::vector{1});
  EXPECT_EQ(flags(any(zeros({0}))), std::vector{0});
  EXPECT_EQ(flags(all(zeros({0}))), std::vector{1});
  EXPECT_THROW(any(zeros({2}), {1}), ShapeError);
  EXPECT_NE(message_of<ShapeError>([] { all(zeros({2}), {1}); }).find("[all]"), std::string::npos);
  EXPECT_NE(message_of<InvalidArgument>([] { all(Tensor()); }).find("[all]"), std::string::npos);
}

TEST(Extremum, NanWins) {
  const Tensor x = doubles({1, kNan, 3, 4, 5, 6}, {2, 3});
  expect_values(amax(x, {1}), {kNan, 6});
  expect_values(amin(x, {1}), {kNan, 4});
  expect_values(max(x), {kNan});
  expect_values(argmax(x, 1), {1, 2});
  expect_values(argmin(x, 1), {1, 0});
  std::vector<double> many(1000, 1);
  many[777] = kNan;
  expect_values(max(doubles(many, {1000})), {kNan});
}

TEST(Extremum, TakesAllNumericTypes) {
  for (const DType dtype : {kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = tensor({3, 7, 1, 7}).to(dtype);
    EXPECT_EQ(max(x).dtype(), dtype);
    EXPECT_EQ(max(x).item<int>(), 7);
    EXPECT_EQ(min(x).item<int>(), 1);
    EXPECT_EQ(argmax(x).item<int>(), 1);
  }
  EXPECT_THROW(max(zeros({2}, {.dtype = kBool})), DTypeError);
}

TEST(Extremum, EqualOnesShareTheGradientOrTheFirstHasIt) {
  const Tensor x = doubles({2, 5, 5, 1}, {1, 4});
  expect_values(weighted_gradient([](const Tensor& t) { return amax(t, {1}); }, x), {0, 0.5, 0.5, 0});
  expect_values(weighted_gradient([](const Tensor& t) { return max(t, 1).values; }, x), {0, 1, 0, 0});
}

TEST(Extremum, WithPlaces) {
  const Tensor x = doubles({1, 9, 3, 8, 2, 4}, {2, 3});
  const auto [greatest, places] = max(x, 0);
  expect_values(greatest, {8, 9, 4});
  expect_values(places, {1, 0, 1});
  EXPECT_EQ(min(x, -1, true).indices.sizes(), (Shape{2, 1}));
  expect_values(argmax(x, 1, true), {1, 0});
}

TEST(Prod, GradientIsExactAtZeros) {
  const auto over_rows = [](const Tensor& t) { return prod(t, {1}); };
  expect_values(weighted_gradient(over_rows, doubles({2, 0, 3, 0, 4, 0}, {2, 3})), {0, 6, 0, 0, 0, 0});
  expect_gradients([](const Inputs& in) { return prod(in[0], {1}); }, {doubles({2, 0, 3, 0, 4, 0}, {2, 3})});
}

TEST(Variance, LargeMeansCostNoDigits) {
  expect_values(var(doubles({1e8 + 1, 1e8 + 2, 1e8 + 3}, {3})), {1});
  EXPECT_NEAR(var(tensor({4097.0, 4098.0, 4099.0}).to(kBFloat16).to(kFloat32)).item<double>(), 0, 1e-9);
  EXPECT_NEAR(stddev(tensor({100.0, 101.0, 102.0}).to(kFloat16)).item<double>(), 1, 1e-3);
}

TEST(Variance, Correction) {
  const Tensor x = doubles({1, 2, 3, 4}, {4});
  EXPECT_DOUBLE_EQ(var(x, {0}, {.correction = 0}).item<double>(), 1.25);
  EXPECT_DOUBLE_EQ(var(x, {0}).item<double>(), 5.0 / 3);
  expect_values(var(doubles({5}, {1})), {kNan});
  EXPECT_EQ(var(zeros({2, 3}), {1}, {.keep_dims = true}).sizes(), (Shape{2, 1}));
}

TEST(Norm, AllOrders) {
  const Tensor x = doubles({3, -4, 0}, {3});
  EXPECT_DOUBLE_EQ(norm(x).item<double>(), 5);
  EXPECT_DOUBLE_EQ(norm(x, 1).item<double>(), 7);
  EXPECT_DOUBLE_EQ(norm(x, 0).item<double>(), 2);
  EXPECT_DOUBLE_EQ(norm(x, kInfinity).item<double>(), 4);
  EXPECT_DOUBLE_EQ(norm(x, -kInfinity).item<double>(), 0);
  EXPECT_DOUBLE_EQ(norm(x, 3).item<double>(), std::cbrt(91.0));
  EXPECT_THROW(norm(x, kNan), InvalidArgument);
}

TEST(Norm, GradientOfAZeroVectorIsZero) {
  for (const double p : {1.0, 2.0, 3.0})
    expect_values(weighted_gradient([p](const Tensor& t) { return norm(t, p); }, doubles({0, 0}, {2})), {0, 0});
}

TEST(Logsumexp, NeitherOverflowsNorLosesInfinities) {
  EXPECT_DOUBLE_EQ(logsumexp(doubles({1000, 1000}, {2}), {0}).item<double>(), 1000 + std::log(2.0));
  expect_values(logsumexp(doubles({-kInfinity, -kInfinity, kInfinity, 1, kNan, 1}, {3, 2}), {1}),
                {-kInfinity, kInfinity, kNan});
}

TEST(Reduce, Gradients) {
  const Inputs x = {random_doubles({2, 3, 4}).transpose(0, 2)};
  expect_gradients([](const Inputs& in) { return sum(in[0], {0, 2}); }, x);
  expect_gradients([](const Inputs& in) { return mean(in[0], {1}, true); }, x);
  expect_gradients([](const Inputs& in) { return prod(in[0], {0, 2}); }, x);
  expect_gradients([](const Inputs& in) { return amax(in[0], {0, 1}); }, x);
  expect_gradients([](const Inputs& in) { return amin(in[0], {2}, true); }, x);
  expect_gradients([](const Inputs& in) { return max(in[0], 1).values; }, x);
  expect_gradients([](const Inputs& in) { return var(in[0], {0, 2}); }, x);
  expect_gradients([](const Inputs& in) { return stddev(in[0], {1}, {.correction = 0}); }, x);
  expect_gradients([](const Inputs& in) { return logsumexp(in[0], {0, 2}); }, x);
  for (const double p : {1.0, 2.0, 3.5, kInfinity})
    expect_gradients([p](const Inputs& in) { return norm(in[0], p, {1}); }, x);
}

TEST(Prod, GradientsOfHalvesDoNotOverflowOnTheWay) {
  Tensor x = tensor({1000., 1000., 1e-3, 1e-3}, {.dtype = kFloat16, .requires_grad = true});
  prod(x).backward();
  const std::vector<double> v = values(x);
  const std::vector<double> got = values(x.grad());
  for (std::size_t i = 0; i < 4; ++i) {
    double others = 1;
    for (std::size_t k = 0; k < 4; ++k) others *= k == i ? 1 : v[k];
    EXPECT_NEAR(got[i], others, 1e-3 * others) << i;
  }
}

TEST(Max, SharesItsGradientAmongMoreTiesThanAHalfCanCount) {
  Tensor x = ones({70000}, {.dtype = kFloat16, .requires_grad = true});
  max(x).backward(tensor(60000., {.dtype = kFloat16}));
  EXPECT_NEAR(values(x.grad())[0], 60000. / 70000, 1e-3);
}

TEST(Norm, IsFlatAtElementsOfZero) {
  const Tensor x = tensor({0., 1., 2.}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor slope = gradients(Inputs{norm(x, 3)}, Inputs{x}, {}, {.create_graph = true})[0];
  expect_values(gradients(Inputs{slope[0]}, Inputs{x})[0], {0, 0, 0});
  for (const double p : {0., -1., -2.})
    expect_values(weighted_gradient([p](const Tensor& t) { return norm(t, p); }, doubles({0, 1, 2}, {3})), {0, 0, 0});
}

TEST(Prod, RecordedGradientsTakeInfinities) {
  const Tensor x = tensor({kInfinity, 2.}, {.requires_grad = true});
  expect_values(gradients(Inputs{prod(x)}, Inputs{x}, {}, {.create_graph = true})[0], {2, kInfinity});
}

// As in PyTorch; any and all are exceptions.
TEST(Reduce, AnEmptyListOfDimensionsMeansAllOfThem) {
  const Tensor x = tensor({{1., 2.}, {4., 8.}});
  const Shape none;
  const auto expect = [](const Tensor& got, const Tensor& expected) {
    EXPECT_EQ(got.sizes(), expected.sizes());
    EXPECT_EQ(testing::values(got), testing::values(expected));
  };
  expect(sum(x, none), sum(x));
  expect(mean(x, none), mean(x));
  expect(prod(x, none), prod(x));
  expect(amax(x, none), max(x));
  expect(amin(x, none), min(x));
  expect(var(x, none), var(x));
  expect(stddev(x, none), stddev(x));
  expect(norm(x, 2, none), norm(x));
  expect(logsumexp(x, none), logsumexp(x, {0, 1}));
  EXPECT_EQ(sum(x, none, true).sizes(), (Shape{1, 1}));
  expect(sum(tensor(3.), none), tensor(3.));
  expect(any(x - 1, none), ne(x, 1));
  expect(all(x - 1, none), ne(x, 1));
}

}  // namespace
}  // namespace lockstep
