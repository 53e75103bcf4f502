// In-place changes and backward.
#include <gtest/gtest.h>

#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/gradcheck.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

TEST(InPlace, HasTheGradientsOfTheNumericJacobian) {
  const Tensor x = randn({2, 3}, {.dtype = kFloat64}), y = randn({3}, {.dtype = kFloat64});
  const auto changed = [](auto change) {
    return [change](const std::vector<Tensor>& in) {
      Tensor z = in[0] * 2.0;
      change(z, in[1]);
      return z * in[0];
    };
  };
  gradcheck(changed([](Tensor& z, const Tensor& other) { z.add_(other, 3); }), {x, y});
  gradcheck(changed([](Tensor& z, const Tensor& other) { z.sub_(other); }), {x, y});
  gradcheck(changed([](Tensor& z, const Tensor& other) { z.mul_(other); }), {x, y});
  gradcheck(changed([](Tensor& z, const Tensor&) { z.mul_(3.0); }), {x, y});
  gradcheck(changed([](Tensor& z, const Tensor&) { z.fill_(3.0); }), {x, y});
  gradcheck(changed([](Tensor& z, const Tensor&) { z.add_(z); }), {x, y});
  gradcheck(changed([](Tensor& z, const Tensor&) { z.mul_(z); }), {x, y});
  gradcheck(changed([](Tensor& z, const Tensor& other) { z.copy_(other); }), {x, y});
  gradgradcheck(changed([](Tensor& z, const Tensor& other) { z.mul_(other); }), {x, y});
  gradgradcheck(changed([](Tensor& z, const Tensor&) { z.mul_(z); }), {x, y});
}

TEST(InPlace, OnTensorsWithoutGradientIsFree) {
  Tensor x = ones({3});
  Tensor view = x.narrow(0, 0, 1);
  view.add_(ones({1}));
  x.mul_(2.0);
  EXPECT_EQ(values(x), (std::vector<double>{4, 2, 2}));
  EXPECT_FALSE(x.requires_grad());
}

TEST(InPlaceRefuses, ALeafThatRequiresAGradient) {
  Tensor x = ones({3}, {.requires_grad = true});
  EXPECT_EQ(thrown<AutogradError>([&] { x.add_(ones({3})); }),
            "[add_] cannot change a leaf of shape [3] in place, because the leaf requires a gradient: change it under "
            "NoGrad");
  EXPECT_THROW(x.fill_(2), AutogradError);
  EXPECT_THROW(x.mul_(2.0), AutogradError);
  EXPECT_EQ(values(x), std::vector<double>(3, 1));
  const NoGrad guard;
  x.add_(ones({3}));
  EXPECT_EQ(values(x), std::vector<double>(3, 2));
}

TEST(InPlaceRefuses, ATensorThatBackwardStillNeeds) {
  Tensor x = ones({3}, {.requires_grad = true});
  Tensor y = x * 2.0;
  {
    const Tensor z = y * y;
    EXPECT_NE(thrown<AutogradError>([&] { y.add_(ones({3})); }).find("saved for backward"), std::string::npos);
    sum(z).backward();
    EXPECT_EQ(values(x.grad()), std::vector<double>(3, 8));
  }
  Tensor fresh = x * 2.0;
  sum(fresh * fresh).backward();
  fresh.add_(ones({3}));  // no graph keeps it for backward any more
}

TEST(InPlace, OfASavedTensorIsFoundByBackward) {
  Tensor x = ones({3}, {.requires_grad = true}), w = full({3}, 2., {.requires_grad = true});
  const Tensor y = sum(x * w);
  {
    const NoGrad guard;
    w.mul_(2.0);
  }
  const std::string failed = thrown<AutogradError>([&] { y.backward(); });
  EXPECT_EQ(
      failed,
      "[MulBackward] expected a saved tensor of shape [3] at version 0, got version 1: it was changed in place after "
      "the operation saved it. Change a clone() of it, or use the out-of-place operation (in backward of Mul)");
}

TEST(InPlace, ThroughAViewIsFoundToo) {
  Tensor x = ones({3}, {.requires_grad = true});
  const Tensor data = ones({2, 3});
  const Tensor y = sum(x * data[0]);
  Tensor other = data[1];
  other.fill_(5);
  EXPECT_THROW(y.backward(), AutogradError);
}

TEST(InPlaceRefuses, WiderNumbersThanItHolds) {
  Tensor x = tensor({1, 2});
  EXPECT_THROW(x.add_(tensor({0.5, 0.5})), DTypeError);
  EXPECT_THROW(x.mul_(0.5), DTypeError);
  EXPECT_THROW(x.add_(ones({2, 2}, {.dtype = kInt64})), ShapeError);
  EXPECT_EQ(values(x), (std::vector<double>{1, 2}));
  EXPECT_EQ(x.version(), 0u);
}

TEST(InPlaceRefuses, AnArgumentThatOverlapsOtherwise) {
  Tensor x = arange(9, {.dtype = kFloat32}).view({3, 3});
  EXPECT_THROW(x.add_(x.t()), InvalidArgument);
  EXPECT_THROW(x.mul_(x[1]), InvalidArgument);
  x.add_(x);
  EXPECT_EQ(values(x[0]), (std::vector<double>{0, 2, 4}));
}

TEST(InPlace, LeavesNoMemoryBehind) {
  const TestDevices devices(1);
  const std::size_t before = memory_stats("cuda:0").in_use;
  {
    const Tensor x = ones({100}, {.device = "cuda:0", .requires_grad = true});
    Tensor y = x * 2.0;
    y.mul_(y);
    y.add_(x);
    y.mul_(x);
    EXPECT_EQ(values(y), std::vector<double>(100, 5));
    Tensor z = x * 3.0;
    const Tensor gate = z * z;
    EXPECT_THROW(z.mul_(gate), AutogradError);
  }
  EXPECT_EQ(memory_stats("cuda:0").in_use, before);
}

}  // namespace
}  // namespace lockstep
