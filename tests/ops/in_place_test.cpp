// In-place operations: results, errors, and gradients.
#include <gtest/gtest.h>

#include <lockstep/autograd/autograd.h>

#include "ops/all_ops.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;
using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

TEST(InPlace, ChangesTheTensorAndItsViews) {
  Tensor x = tensor({{1., 2.}, {3., 4.}});
  const Tensor row = x[1];
  x.add_(tensor({10., 20.})).mul_(2);
  EXPECT_EQ(row.to_vector<float>(), (Floats{26, 48}));
}

TEST(InPlace, HasOperators) {
  Tensor x = tensor({{1., 2.}, {3., 4.}});
  x += tensor({10., 20.});
  x -= 1;
  x *= tensor({{2.}, {1.}});
  x /= tensor({5., 0.5});
  x += 0.5;
  x -= tensor({1.});
  x *= 4;
  x /= 2;
  const Floats expected = {7, 167, 3.8f, 91}, got = x.to_vector<float>();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_FLOAT_EQ(got[i], expected[i]);
  Tensor bytes = tensor({250}, {.dtype = kUInt8});
  bytes += 10;
  EXPECT_EQ(bytes.to(kInt64).to_vector<std::int64_t>(), (Integers{4}));
}

// The gradient of the final value with respect to the first, as without in-place operations.
TEST(InPlace, OperatorsAreDifferentiable) {
  const Tensor x = tensor({{1.5, 2.}, {3., 4.}}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor q = tensor({2., 5.}, {.dtype = kFloat64, .requires_grad = true});
  const auto in_place = [&] {
    Tensor y = x * 1;
    y /= q;
    y += 3;
    y /= 4;
    y /= y;
    y -= 0.5;
    y *= x;
    return sum(y * y);
  };
  const auto out_of_place = [&] {
    const Tensor y = (x * 1 / q + 3) / 4;
    const Tensor z = (y / y - 0.5) * x;
    return sum(z * z);
  };
  const std::vector<Tensor> expected = gradients({out_of_place()}, {x, q}), got = gradients({in_place()}, {x, q});
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<double> a = values(expected[i]), b = values(got[i]);
    for (std::size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(b[k], a[k], 1e-12) << "input " << i;
  }
}

TEST(InPlace, RejectsWhatTheTargetCannotHold) {
  Tensor x = tensor({1, 2});
  EXPECT_THROW(x.add_(tensor({0.5, 0.5})), DTypeError);
  EXPECT_THROW(x.mul_(0.5), DTypeError);
  EXPECT_THROW(x.add_(0.5), DTypeError);
  EXPECT_THROW(x.div_(2), DTypeError);
  EXPECT_THROW(x.div_(tensor({1, 2})), DTypeError);
  EXPECT_THROW(x.add_(tensor({{1, 2}, {3, 4}})), ShapeError);
}

TEST(InPlace, OnASavedInputIsAnErrorOfBackward) {
  Tensor x = tensor({1., 2.}).requires_grad_();
  Tensor factor = tensor({3., 4.});
  const Tensor y = sum(x * factor);
  factor.add_(tensor({1., 1.}));
  EXPECT_THROW(y.backward(), AutogradError);
}

TEST(InPlace, OnASavedOutputIsAnErrorOfBackward) {
  Tensor x = tensor({1., 2.}).requires_grad_();
  Tensor y = exp(x);
  {
    const NoGrad guard;
    y.mul_(2);
  }
  EXPECT_THROW(sum(y).backward(), AutogradError);
}

TEST(InPlace, ComputesInTheWiderDtype) {
  const auto half = [](double value) { return full({1}, value, {.dtype = kFloat16}); };
  EXPECT_NEAR(half(1e-3).mul_(tensor({1e5})).item<double>(), 100, 0.1);
  EXPECT_NEAR(half(60000).mul_(tensor({1e-8})).item<double>(), 6e-4, 1e-6);
  EXPECT_NEAR(half(1000).div_(tensor({1e6})).item<double>(), 1e-3, 1e-6);
  EXPECT_EQ(half(60000).add_(tensor({-70000.})).item<double>(), -10000);
  EXPECT_EQ(half(1).add_(tensor({1e5}), 1e-5).item<double>(), 2);

  Tensor x = half(2).requires_grad_(), factor = tensor({3.}).requires_grad_();
  Tensor y = x * 1;
  y.mul_(factor);
  EXPECT_EQ(y.dtype(), kFloat16);
  sum(y).backward();
  EXPECT_EQ(x.grad().item<float>(), 3);
  EXPECT_EQ(factor.grad().item<float>(), 2);
}

}  // namespace
}  // namespace lockstep
