// Sums of many float32 numbers agree with sums in double, wherever the numbers lie in memory.
#include "ops/checks.h"

namespace lockstep {
namespace {

using namespace testing;

constexpr std::int64_t kMany = 400000;
constexpr double kBound = 3e-6;

// The error of `got` relative to the largest element of `expected`.
double error(const Tensor& got, const Tensor& expected) {
  const Tensor difference = abs(got.to(kFloat64) - expected);
  return (max(difference) / max(abs(expected))).item<double>();
}

// The error of a function of x in float32, relative to the same function in double.
template <class F>
double error_of(F function, const Tensor& x) {
  return error(function(x), function(x.to(kFloat64)));
}

// Equal numbers are the worst case: each addition rounds in the same direction.
TEST(LongSums, OfColumns) {
  EXPECT_LT(error_of([](const Tensor& x) { return sum(x, {0}); }, full({kMany, 2}, 0.1)), kBound);
  EXPECT_LT(error_of([](const Tensor& x) { return norm(x, 2, {0}); }, full({kMany, 2}, 0.1)), kBound);
  EXPECT_LT(error_of([](const Tensor& x) { return sum(x, {0}); }, full({2, kMany}, 0.1).t()), kBound);
}

TEST(LongSums, OfRows) {
  EXPECT_LT(error_of([](const Tensor& x) { return sum(x, {1}); }, full({2, kMany}, 0.1)), kBound);
  EXPECT_LT(error_of([](const Tensor& x) { return sum(x); }, full({kMany}, 0.1)), kBound);
}

// Sums of whole numbers are exact: each element is added once, however a long row is divided.
TEST(LongSums, OfRowsOfAnyLengthDenseOrNot) {
  for (const std::int64_t n : {2047, 2048, 2049, 4096, 32767, 32768, 32769, 34816, 65537, 400000}) {
    const Tensor x = arange(double(2 * n), {.dtype = kInt64});
    EXPECT_EQ(sum(x).item<std::int64_t>(), n * (2 * n - 1)) << n;
    EXPECT_EQ(sum(x.view({n, 2}).select(1, 1)).item<std::int64_t>(), n * n) << n;
    EXPECT_EQ(values(sum(x.view({2, n}), {1})), (std::vector{double(n * (n - 1) / 2), double(n * (3 * n - 1) / 2)}))
        << n;
  }
}

TEST(LongSums, OfManyShortRows) {
  EXPECT_LT(error_of([](const Tensor& x) { return sum(x, {0, 2}); }, full({kMany / 4, 2, 3}, 0.1)), kBound);
}

TEST(LongSums, Running) {
  const Tensor x = full({kMany}, 0.1);
  EXPECT_LT(error(cumsum(x, 0), cumsum(x.to(kFloat64), 0)), 1e-7);
}

TEST(LongSums, OfNormalization) {
  manual_seed(1);
  const Tensor x = rand({1, 1, kMany}) + 5;
  EXPECT_LT(error_of([](const Tensor& y) { return layer_norm(y, {kMany}); }, x), kBound);
  EXPECT_LT(error_of([](const Tensor& y) { return group_norm(y, 1); }, x), kBound);
}

TEST(LongSums, OfExponentials) {
  const Tensor x = full({kMany}, -2.3);
  x[0].zero_();  // the greatest element
  EXPECT_LT(error_of([](const Tensor& y) { return softmax(y, 0); }, x), kBound);
  EXPECT_LT(error_of([](const Tensor& y) { return logsumexp(y, {0}); }, x), 2e-7);
}

TEST(LongSums, GradientOfABias) {
  const Tensor bias = zeros({2}, {.requires_grad = true});
  const Tensor y = linear(zeros({kMany, 1}), zeros({2, 1}), bias);
  y.backward(full({kMany, 2}, 0.1));
  EXPECT_LT(error(bias.grad(), full({2}, 0.1).to(kFloat64) * double(kMany)), kBound);
}

// Simulated devices compute each kernel on one thread, the CPU on all.
TEST(LongSums, DoNotDependOnThreads) {
  SimulatedDevices devices({.count = 1});
  manual_seed(1);
  const Tensor x = rand({20001, 13});
  for (const Shape& dims : {Shape{0}, Shape{1}, Shape{0, 1}})
    EXPECT_EQ(values(sum(x, dims)), values(sum(x.cuda(), dims)));
  EXPECT_EQ(values(softmax(x, 0)), values(softmax(x.cuda(), 0)));
}

}  // namespace
}  // namespace lockstep
