// Elementwise operations: properties besides the reference values.
#include <cmath>

#include <lockstep/autograd/autograd.h>

#include "ops/all_ops.h"
#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;
using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

TEST(Elementwise, BroadcastsFromBothSides) {
  const Tensor sum = tensor({{1.}, {2.}}) + tensor({10., 20., 30.});
  EXPECT_EQ(sum.sizes(), (Shape{2, 3}));
  EXPECT_EQ(sum.to_vector<float>(), (Floats{11, 21, 31, 12, 22, 32}));
}

TEST(Elementwise, RejectsShapesThatDoNotBroadcastBeforeAnythingRuns) {
  const SimulatedDevices devices({.count = 1});
  const Tensor a = ones({2, 3}, {.device = Device::cuda(0)}), b = ones({4}, {.device = Device::cuda(0)});
  const auto before = devices.counts(0).launches;
  EXPECT_THROW(a + b, ShapeError);
  EXPECT_THROW(maximum(a, b), ShapeError);
  EXPECT_THROW(pow(a, b), ShapeError);
  EXPECT_THROW(a < b, ShapeError);
  EXPECT_THROW(mse_loss(a, b), ShapeError);
  EXPECT_EQ(devices.counts(0).launches, before);
}

TEST(Elementwise, RejectsOperandsOnTwoDevices) {
  const TestDevices devices(1);
  const Tensor here = ones({2}), there = ones({2}, {.device = Device::cuda(0)});
  EXPECT_THROW(maximum(here, there), DeviceMismatch);
  EXPECT_THROW(here < there, DeviceMismatch);
  EXPECT_THROW(where(here > 0, here, there), DeviceMismatch);
  EXPECT_THROW(masked_fill(there, here > 0, 1), DeviceMismatch);
  EXPECT_THROW(pow(here, there), DeviceMismatch);
}

TEST(Elementwise, RejectsUndefinedTensors) {
  EXPECT_THROW(exp(Tensor()), InvalidArgument);
  EXPECT_THROW(abs(Tensor()), InvalidArgument);
  EXPECT_THROW(relu(Tensor()), InvalidArgument);
  EXPECT_THROW(ones({2}) + Tensor(), InvalidArgument);
  EXPECT_THROW(Tensor() > 1, InvalidArgument);
}

TEST(Elementwise, FloatingFunctionsRejectIntegers) {
  EXPECT_THROW(exp(tensor({1, 2})), DTypeError);
  EXPECT_THROW(gelu(tensor({1, 2})), DTypeError);
  try {
    tanh(tensor({1, 2}));
    ADD_FAILURE();
  } catch (const DTypeError& error) {
    EXPECT_STREQ(error.what(), "[tanh] expected a floating dtype, got int64");
  }
}

TEST(Elementwise, PromotesToTheWiderDtype) {
  EXPECT_EQ(maximum(tensor({1}), tensor({1.5})).dtype(), kFloat32);
  EXPECT_EQ(pow(tensor({2}), tensor({0.5}, {.dtype = kFloat64})).dtype(), kFloat64);
  EXPECT_EQ(where(tensor({true}), tensor({1}), tensor({2.5})).dtype(), kFloat32);
  EXPECT_EQ((ones({1}, {.dtype = kFloat16}) * ones({1}, {.dtype = kBFloat16})).dtype(), kFloat32);
}

// The expected dtypes are PyTorch 2.15's.
TEST(Elementwise, OfA0DimTensorOnlyAHigherKindCounts) {
  const auto dims = [](DType dtype) { return ones({2}, {.dtype = dtype}); };
  const auto number = [](DType dtype) { return ones({}, {.dtype = dtype}); };
  EXPECT_EQ((dims(kFloat16) * number(kFloat32)).dtype(), kFloat16);
  EXPECT_EQ((number(kFloat64) + dims(kFloat32)).dtype(), kFloat32);
  EXPECT_EQ((dims(kBFloat16) / number(kFloat16)).dtype(), kBFloat16);
  EXPECT_EQ((dims(kInt32) * number(kInt64)).dtype(), kInt32);
  EXPECT_EQ((dims(kUInt8) - number(kInt64)).dtype(), kUInt8);
  EXPECT_EQ((dims(kInt32) * number(kFloat64)).dtype(), kFloat64);
  EXPECT_EQ((dims(kBool) + number(kInt32)).dtype(), kInt32);
  EXPECT_EQ((dims(kFloat32) + number(kInt64)).dtype(), kFloat32);
  EXPECT_EQ((number(kFloat16) * number(kFloat32)).dtype(), kFloat32);
  EXPECT_EQ((ones({1}, {.dtype = kFloat32}) * dims(kFloat16)).dtype(), kFloat32);
  EXPECT_EQ(maximum(dims(kFloat16), number(kFloat64)).dtype(), kFloat16);
  EXPECT_EQ(remainder(number(kFloat64), dims(kFloat32)).dtype(), kFloat32);
  EXPECT_EQ(atan2(dims(kFloat16), number(kFloat32)).dtype(), kFloat16);
  EXPECT_EQ(where(tensor({true, false}), dims(kFloat16), number(kFloat32)).dtype(), kFloat16);
  EXPECT_EQ((dims(kUInt8) & number(kInt64)).dtype(), kUInt8);
  EXPECT_EQ(values(full({1}, 0.1, {.dtype = kFloat16}) == full({}, 0.1)), std::vector<double>{1});
}

TEST(Elementwise, NumbersThatADtypeCannotHoldStillWidenIntegers) {
  const Tensor bytes = tensor({1, 200}).to(kUInt8);
  EXPECT_EQ(values(eq(bytes, 456)), (std::vector<double>{0, 0}));
  EXPECT_EQ(values(where(tensor({true, false}), bytes, 456)), (std::vector<double>{1, 456}));
  EXPECT_EQ(values(clamp(bytes, 0, 456)), (std::vector<double>{1, 200}));
  EXPECT_EQ(values(remainder(bytes, 456)), (std::vector<double>{1, 200}));
}

TEST(Elementwise, A0DimTensorGetsAGradientOfItsOwnDtype) {
  const Tensor scale = tensor(3.).requires_grad_();
  sum(ones({2}, {.dtype = kFloat16}) * scale).backward();
  EXPECT_EQ(scale.grad().dtype(), kFloat32);
  EXPECT_EQ(scale.grad().item<double>(), 2);
}

TEST(Elementwise, NumbersTakeTheTensorsDtypeUnlessTheyAreFractional) {
  EXPECT_EQ((tensor({1, 2}) * 2).dtype(), kInt64);
  EXPECT_EQ((tensor({1, 2}) * 1.5).dtype(), kFloat32);
  EXPECT_EQ((2 - tensor({1, 2})).to_vector<std::int64_t>(), (Integers{1, 0}));
  EXPECT_EQ((ones({2}, {.dtype = kFloat16}) + 1.5).dtype(), kFloat16);
}

TEST(Elementwise, DivisionOfIntegersIsTrueDivision) {
  EXPECT_EQ((tensor({1, 3}) / tensor({2, 2})).to_vector<float>(), (Floats{0.5, 1.5}));
  EXPECT_EQ((tensor({1, 3}) / 2).to_vector<float>(), (Floats{0.5, 1.5}));
  EXPECT_EQ((tensor({1, 3}) / 1).dtype(), kFloat32);
  EXPECT_EQ((1 / tensor({1, 2})).to_vector<float>(), (Floats{1, 0.5}));
}

TEST(Elementwise, WorksOnEmptyTensors) {
  const Tensor none = zeros({0, 3});
  EXPECT_EQ(exp(none).sizes(), (Shape{0, 3}));
  EXPECT_EQ(maximum(none, ones({3})).sizes(), (Shape{0, 3}));
  EXPECT_EQ((none > 0).sizes(), (Shape{0, 3}));
  Tensor leaf = zeros({0, 3}).requires_grad_();
  sum(gelu(leaf)).backward();
  EXPECT_EQ(leaf.grad().sizes(), (Shape{0, 3}));
}

TEST(Elementwise, WorksOnScalars) {
  EXPECT_EQ(exp(tensor(0.)).sizes(), Shape());
  EXPECT_EQ(exp(tensor(0.)).item<float>(), 1);
  EXPECT_EQ(maximum(tensor(1.), tensor({0., 2.})).to_vector<float>(), (Floats{1, 2}));
}

TEST(Elementwise, ComputesHalvesInFloat) {
  const Tensor x = full({3}, 0.1, {.dtype = kBFloat16});
  EXPECT_EQ(gelu(x).dtype(), kBFloat16);
  EXPECT_NEAR(gelu(x).to(kFloat32).to_vector<float>()[0], 0.0540f, 3e-4);
}

TEST(Rounding, GoesToWholeNumbers) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")})
    for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
      const Tensor x = tensor({-2.5, -1.5, -0.25, 0., 0.5, 1.5, 1.75, kInfinity, kNan}).to(device, dtype);
      expect_values(floor(x), {-3, -2, -1, 0, 0, 1, 1, kInfinity, kNan});
      expect_values(ceil(x), {-2, -1, 0, 0, 1, 2, 2, kInfinity, kNan});
      expect_values(trunc(x), {-2, -1, 0, 0, 0, 1, 1, kInfinity, kNan});
      expect_values(round(x), {-2, -2, 0, 0, 0, 2, 2, kInfinity, kNan});
      expect_values(sign(x), {-1, -1, -1, 0, 1, 1, 1, 1, kNan});
      EXPECT_EQ(sign(x).dtype(), dtype);
    }
}

TEST(Rounding, HasAGradientOfZero) {
  for (const auto step : {floor, ceil, trunc, round, sign}) {
    Tensor x = tensor({-1.5, 0.25}).requires_grad_();
    sum(step(x) * kInfinity).backward();
    expect_values(x.grad(), {0, 0});
    gradgradcheck([&](const std::vector<Tensor>& in) { return step(in[0]); }, {doubles({-1.5, 0.25}, {2})});
    Tensor changed = x * 2;
    const Tensor steps = step(changed);
    changed.add_(1);  // the gradient does not need its values
    sum(steps).backward();
  }
}

TEST(Maximum, NanWins) {
  const Tensor a = tensor({kNan, 1.}), b = tensor({1., kNan});
  for (const Tensor& result : {maximum(a, b), minimum(a, b)})
    for (const float value : result.to_vector<float>()) EXPECT_TRUE(std::isnan(value));
}

TEST(Maximum, SharesTheGradientOfEquals) {
  Tensor a = tensor({1., 2., 3.}).requires_grad_(), b = tensor({3., 2., 1.}).requires_grad_();
  sum(maximum(a, b)).backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{0, 0.5, 1}));
  EXPECT_EQ(b.grad().to_vector<float>(), (Floats{1, 0.5, 0}));
}

TEST(Maximum, NanDoesNotHideTheGradient) {
  for (const auto choose : {maximum, minimum}) {
    Tensor a = tensor({kNan, 1., kNan}).requires_grad_(), b = tensor({1., kNan, kNan}).requires_grad_();
    choose(a, b).backward(tensor({2., 3., kNan}));
    for (const Tensor& gradient : {a.grad(), b.grad()}) {
      EXPECT_EQ(gradient.to_vector<float>()[0], 2);
      EXPECT_EQ(gradient.to_vector<float>()[1], 3);
      EXPECT_TRUE(std::isnan(gradient.to_vector<float>()[2]));
    }
  }
}

TEST(Clamp, TakesOneBoundOrBoth) {
  const Tensor x = tensor({-2., 0., 2., kNan});
  EXPECT_EQ(clamp(x, {.min = -1}).to_vector<float>()[0], -1);
  EXPECT_EQ(clamp(x, {.max = 1}).to_vector<float>()[2], 1);
  EXPECT_TRUE(std::isnan(clamp(x, {.min = -1, .max = 1}).to_vector<float>()[3]));
  EXPECT_EQ(clamp(tensor({-5, 5}), {.min = -1, .max = 1}).to_vector<std::int64_t>(), (Integers{-1, 1}));
  EXPECT_THROW(clamp(x, ClampOptions()), InvalidArgument);
  EXPECT_THROW(clamp(x, {.min = 1, .max = -1}), InvalidArgument);
}

TEST(Pow, KeepsIntegersUnderWholeExponents) {
  EXPECT_EQ(pow(tensor({-2, 3}), 3).to_vector<std::int64_t>(), (Integers{-8, 27}));
  EXPECT_EQ(pow(tensor({5, 0}), 0).to_vector<std::int64_t>(), (Integers{1, 1}));
  EXPECT_EQ(pow(tensor({4}), 0.5).to_vector<float>(), (Floats{2}));
  EXPECT_EQ(pow(tensor({4}), -1).to_vector<float>(), (Floats{0.25}));
}

TEST(Pow, HasFiniteGradientsAtZero) {
  Tensor base = tensor({0.}).requires_grad_(), exponent = tensor({2.}).requires_grad_();
  pow(base, exponent).backward(ones({1}));
  EXPECT_EQ(base.grad().item<float>(), 0);
  EXPECT_EQ(exponent.grad().item<float>(), 0);
}

TEST(Abs, KeepsIntegers) {
  EXPECT_EQ(abs(tensor({-3, 3})).to_vector<std::int64_t>(), (Integers{3, 3}));
  EXPECT_EQ(abs(tensor({200}, {.dtype = kUInt8})).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{200}));
}

TEST(Activation, KeepsNan) {
  const Tensor nan = tensor({kNan});
  for (const Tensor& result : {relu(nan), leaky_relu(nan), elu(nan), gelu(nan), silu(nan), mish(nan), softplus(nan),
                               hardtanh(nan), hardswish(nan)})
    EXPECT_TRUE(std::isnan(result.item<float>()));
}

TEST(Relu, HidesNoNanFromGradients) {
  Tensor x = tensor({kNan, -1., 0., 1.}).requires_grad_();
  relu(x).backward(tensor({2., 3., 4., 5.}));
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{2, 0, 0, 5}));
}

TEST(Activation, StaysFiniteFarOut) {
  for (const double at : {-1e4, 1e4}) {
    Tensor x = tensor({at}).requires_grad_();
    const Tensor all =
        gelu(x) + gelu(x, GeluForm::tanh) + silu(x) + mish(x) + softplus(x) + elu(x) + sigmoid(x) + tanh(x);
    EXPECT_TRUE(std::isfinite(all.item<float>()));
    all.backward();
    EXPECT_TRUE(std::isfinite(x.grad().item<float>()));
  }
}

TEST(Activation, RejectsBoundsTheWrongWayRound) {
  EXPECT_THROW(hardtanh(tensor({1.}), 1, -1), InvalidArgument);
  EXPECT_THROW(softplus(tensor({1.}), {.beta = 0}), InvalidArgument);
}

TEST(Elementwise, IntegersBesideNumbersThatTheirDtypeCannotHold) {
  const Tensor bytes = tensor({0, 44, 255}, {.dtype = kUInt8}), ints = tensor({1, 2}, {.dtype = kInt32});
  EXPECT_EQ(flags(eq(bytes, 256)), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(flags(gt(bytes, -1)), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(flags(lt(ints, 1e10)), (std::vector<int>{1, 1}));
  EXPECT_EQ(flags(lt(ints, kInfinity)), (std::vector<int>{1, 1}));
  EXPECT_EQ(flags(ne(ints, kNan)), (std::vector<int>{1, 1}));
  EXPECT_EQ((ints + 1e10).dtype(), kInt64);
  EXPECT_EQ((ints + 1e10).to_vector<std::int64_t>(), (Integers{10000000001, 10000000002}));
  EXPECT_EQ((ints + kInfinity).to_vector<float>(), (Floats{float(kInfinity), float(kInfinity)}));
  EXPECT_EQ(clamp(ints, {.max = kInfinity}).to(kInt64).to_vector<std::int64_t>(), (Integers{1, 2}));
  EXPECT_EQ((bytes - 1).dtype(), kUInt8);
  EXPECT_EQ((bytes - 1).to(kInt64).to_vector<std::int64_t>(), (Integers{255, 43, 254}));
  EXPECT_THROW(masked_fill(bytes, eq(bytes, 0), 300), DTypeError);
  EXPECT_THROW(masked_fill(ints, eq(ints, 1), -kInfinity), DTypeError);
  Tensor target = ints.clone();
  EXPECT_THROW(target.mul_(1e10), DTypeError);
  EXPECT_THROW(target.add_(ints, 0.5), DTypeError);
  EXPECT_EQ(flags(eq(target, ints)), (std::vector<int>{1, 1}));
}

TEST(Elementwise, AFractionalAlphaMakesIntegersFloat) {
  const Tensor x = tensor({2, 3});
  EXPECT_EQ(add(x, x, 0.5).to_vector<float>(), (Floats{3, 4.5}));
  EXPECT_EQ(sub(x, x, 0.5).to_vector<float>(), (Floats{1, 1.5}));
  EXPECT_EQ(sub(x, x, 2).dtype(), kInt64);
}

// Division is not a product with the reciprocal.
TEST(Elementwise, DividesExactly) {
  for (int n = 1; n < 2000; ++n) {
    EXPECT_EQ((tensor(float(n)) / n).item<float>(), 1) << n;
    EXPECT_EQ(mean(ones({n})).item<float>(), 1) << n;
    EXPECT_EQ(mean(ones({n}, {.dtype = kFloat64})).item<double>(), 1) << n;
  }
  EXPECT_EQ((tensor(0.f) / 1e-39).item<float>(), 0);
  EXPECT_EQ((tensor(1e-39f) / 1e-39).item<float>(), 1);
}

TEST(Elementwise, WhatAnOperationDiscardsGetsNoGradient) {
  Tensor x = tensor({1., 4.}, {.requires_grad = true});
  Tensor y = x * 1;
  y.zero_();
  sum(sqrt(y)).backward();  // the gradient is infinite at 0
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{0, 0}));
  x.set_grad(Tensor());
  sum(sqrt(pow(x, 0) - 1)).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{0, 0}));
}

TEST(Elementwise, NumbersMinusIntegersDoNotWrapAround) {
  const Tensor bytes = tensor({5, 6}, {.dtype = kUInt8});
  EXPECT_EQ((0.5 - bytes).to_vector<float>(), (Floats{-4.5, -5.5}));
  EXPECT_EQ((300 - bytes).to_vector<std::int64_t>(), (Integers{295, 294}));
  EXPECT_EQ((7 - bytes).dtype(), kUInt8);
  EXPECT_EQ((1e10 - full({1}, -2147483648., {.dtype = kInt32})).item<std::int64_t>(), 12147483648);
}

// Division is not a product with the reciprocal, which overflows or is rounded.
TEST(Elementwise, DividesNumbersExactly) {
  for (int n = 1; n < 2000; ++n) EXPECT_EQ((n / tensor(float(n))).item<float>(), 1) << n;
  EXPECT_EQ((1e-30 / tensor(1e-39f)).item<float>(), 1e-30f / 1e-39f);
  Tensor x = tensor({2., -4.}).requires_grad_();
  sum(8 / x).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{-2, -0.5}));
}

TEST(Clamp, HasNoGradientAtNan) {
  Tensor x = tensor({kNan, 0.5, 2.}).requires_grad_();
  sum(clamp(x, {.min = 0, .max = 1})).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{0, 1, 0}));
}

TEST(Pow, OfIntegersWrapsAroundUnderLargeExponents) {
  EXPECT_EQ(pow(tensor({1, -1, 2, 0}), 64).to_vector<std::int64_t>(), (Integers{1, 1, 0, 0}));
  EXPECT_EQ(pow(tensor({-1}), 101).to_vector<std::int64_t>(), (Integers{-1}));
}

TEST(Gelu, RecordedGradientsOfHalvesDoNotOverflowOnTheWay) {
  const Tensor x = tensor({-1000., 1000.}, {.dtype = kFloat16, .requires_grad = true});
  const Tensor y = sum(gelu(x, GeluForm::tanh));
  const Tensor gradient = gradients(std::vector<Tensor>{y}, std::vector<Tensor>{x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(gradient.dtype(), kFloat16);
  EXPECT_EQ(gradient.detach().to(kFloat32).to_vector<float>(), (Floats{0, 1}));
}

}  // namespace
}  // namespace lockstep
