// Comparison, logic and selection.
#include "ops/all_ops.h"
#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;
using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

TEST(Compare, GivesBool) {
  const Tensor a = tensor({1., 2., 3.}), b = tensor({3., 2., 1.});
  EXPECT_EQ(flags(eq(a, b)), (std::vector{0, 1, 0}));
  EXPECT_EQ(flags(ne(a, b)), (std::vector{1, 0, 1}));
  EXPECT_EQ(flags(a < b), (std::vector{1, 0, 0}));
  EXPECT_EQ(flags(a <= b), (std::vector{1, 1, 0}));
  EXPECT_EQ(flags(a > b), (std::vector{0, 0, 1}));
  EXPECT_EQ(flags(a >= b), (std::vector{0, 1, 1}));
}

TEST(Compare, WithNanIsFalseButForNe) {
  const Tensor nan = tensor({kNan});
  for (const Tensor& result : {eq(nan, nan), nan<nan, nan <= nan, nan> nan, nan >= nan, nan >= 0.})
    EXPECT_EQ(flags(result), (std::vector{0}));
  EXPECT_EQ(flags(ne(nan, nan)), (std::vector{1}));
}

TEST(Compare, WithNumbersOfAnyKind) {
  EXPECT_EQ(flags(tensor({1, 2, 3}) > 1.5), (std::vector{0, 1, 1}));
  EXPECT_EQ(flags(tensor({true, false}) < 1), (std::vector{0, 1}));
  EXPECT_EQ(flags(eq(tensor({1, 2}), 2)), (std::vector{0, 1}));
}

TEST(Compare, PromotesBeforeItCompares) { EXPECT_EQ(flags(tensor({1, 2}) < tensor({1.5, 1.5})), (std::vector{1, 0})); }

TEST(Logic, OfMasks) {
  const Tensor a = tensor({true, true, false, false}), b = tensor({true, false, true, false});
  for (const Tensor& both : {logical_and(a, b), a & b}) EXPECT_EQ(flags(both), (std::vector{1, 0, 0, 0}));
  for (const Tensor& either : {logical_or(a, b), a | b}) EXPECT_EQ(flags(either), (std::vector{1, 1, 1, 0}));
  for (const Tensor& one : {logical_xor(a, b), a ^ b}) EXPECT_EQ(flags(one), (std::vector{0, 1, 1, 0}));
  for (const Tensor& neither : {logical_not(a | b), ~(a | b)}) EXPECT_EQ(flags(neither), (std::vector{0, 0, 0, 1}));
}

TEST(Logic, BroadcastsAndTakesWhatIsNotZero) {
  const Tensor a = tensor({{0.5}, {0.}}), b = tensor({0, -2, 3});
  EXPECT_EQ(flags(logical_and(a, b).reshape({6})), (std::vector{0, 1, 1, 0, 0, 0}));
  EXPECT_EQ(flags(logical_or(a, b).reshape({6})), (std::vector{1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(flags(logical_not(tensor({0., -0., kNan, 1e-45}))), (std::vector{1, 1, 0, 0}));
  EXPECT_EQ(logical_and(empty({0, 3}), b).sizes(), (Shape{0, 3}));
}

TEST(Logic, RefusesBeforeAnythingRuns) {
  const SimulatedDevices devices({.count = 1});
  const Tensor x = ones({2, 3}).cuda(), y = ones({4}, {.dtype = kInt64}).cuda();
  const auto before = devices.counts(0).launches;
  EXPECT_THROW(logical_xor(x, y), ShapeError);
  EXPECT_THROW(x < y, ShapeError);
  EXPECT_EQ(devices.counts(0).launches, before);
}

TEST(Logic, OfIntegersIsOfTheirBits) {
  const Tensor a = tensor({12, -1, 0}), b = tensor({10, 6, 7}).to(kInt32);
  EXPECT_EQ(values(a & b), (std::vector<double>{12 & 10, 6, 0}));
  EXPECT_EQ(values(a | b), (std::vector<double>{12 | 10, -1, 7}));
  EXPECT_EQ(values(a ^ b), (std::vector<double>{12 ^ 10, ~6, 7}));
  EXPECT_EQ(values(~a), (std::vector<double>{~12, 0, -1}));
  EXPECT_EQ(values(~tensor({1}).to(kUInt8)), (std::vector<double>{254}));
  EXPECT_EQ(values(tensor({true, false}) & tensor({3, 3})), (std::vector<double>{1, 0}));
}

TEST(Logic, RefusesWhatDoesNotFit) {
  const Tensor mask = tensor({true, false});
  EXPECT_THROW(mask & tensor({1., 2.}), DTypeError);
  EXPECT_THROW(tensor({1., 2.}) | mask, DTypeError);
  EXPECT_THROW(mask ^ tensor({1., 2.}), DTypeError);
  EXPECT_THROW(~tensor({1.}), DTypeError);
  EXPECT_THROW(logical_and(mask, tensor({true, false, true})), ShapeError);
  EXPECT_THROW(logical_or(mask, Tensor()), InvalidArgument);
  EXPECT_THROW(~Tensor(), InvalidArgument);
  EXPECT_THROW(mask & Tensor(), InvalidArgument);
}

TEST(Logic, OnSimulatedDevices) {
  const TestDevices devices(2);
  const Tensor x = arange(0, 6).to("cuda:1");
  EXPECT_EQ(flags(((x > 1) & ~(x > 3)) | eq(x, 5)), (std::vector{0, 0, 1, 1, 0, 1}));
  EXPECT_THROW(logical_xor(x, x.to("cuda:0")), DeviceMismatch);
}

TEST(Classify, NanInfinityAndTheRest) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")})
    for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
      const Tensor x = tensor({kNan, kInfinity, -kInfinity, 0., -1.}).to(device, dtype);
      EXPECT_EQ(flags(isnan(x)), (std::vector{1, 0, 0, 0, 0}));
      EXPECT_EQ(flags(isinf(x)), (std::vector{0, 1, 1, 0, 0}));
      EXPECT_EQ(flags(isfinite(x)), (std::vector{0, 0, 0, 1, 1}));
    }
  const Tensor greatest =
      tensor({std::numeric_limits<double>::max(), -std::numeric_limits<double>::denorm_min()}, {.dtype = kFloat64});
  EXPECT_EQ(flags(isfinite(greatest)), (std::vector{1, 1}));
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64}) {
    const Tensor x = tensor({0, 1}).to(dtype);
    EXPECT_EQ(flags(isnan(x)), (std::vector{0, 0}));
    EXPECT_EQ(flags(isinf(x)), (std::vector{0, 0}));
    EXPECT_EQ(flags(isfinite(x)), (std::vector{1, 1}));
  }
  EXPECT_THROW(isnan(Tensor()), InvalidArgument);
}

TEST(Where, WantsABoolCondition) {
  EXPECT_THROW(where(tensor({1}), tensor({1.}), tensor({2.})), DTypeError);
  EXPECT_THROW(masked_fill(tensor({1.}), tensor({1}), 2), DTypeError);
}

TEST(Where, SendsTheGradientToWhatWasChosen) {
  Tensor a = tensor({1., 2.}).requires_grad_(), b = tensor({3.}).requires_grad_();
  sum(where(tensor({{true, false}, {false, false}}), a, b)).backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{1, 0}));
  EXPECT_EQ(b.grad().to_vector<float>(), (Floats{3}));
}

TEST(MaskedFill, KeepsShapeAndDtype) {
  const Tensor filled = masked_fill(tensor({1, 2, 3}), tensor({true, false, true}), -7);
  EXPECT_EQ(filled.to_vector<std::int64_t>(), (Integers{-7, 2, -7}));
  EXPECT_THROW(masked_fill(tensor({1, 2}), tensor({true, false}), 0.5), DTypeError);
  EXPECT_THROW(masked_fill(tensor({1.}), tensor({true, false}), 0), ShapeError);
  EXPECT_EQ(masked_fill(tensor({1., 2.}), tensor({true, false}), -kInfinity).to_vector<float>()[0], -kInfinity);
}

}  // namespace
}  // namespace lockstep
