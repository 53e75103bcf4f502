// Copies between devices and dtypes in the autograd graph.
#include <gtest/gtest.h>

#include <lockstep/autograd/gradcheck.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

TEST(Movement, CarriesGradientsBackToTheirDevice) {
  const TestDevices devices(2);
  Tensor x = tensor({1., 2., 3.}, {.requires_grad = true});
  const Tensor y = (x.cuda(0) * 2.0).cuda(1).to("cpu", kFloat64);
  sum(y * tensor({1., 10., 100.}, {.dtype = kFloat64})).backward();
  EXPECT_EQ(x.grad().device(), Device("cpu"));
  EXPECT_EQ(x.grad().dtype(), kFloat32);
  EXPECT_EQ(values(x.grad()), (std::vector<double>{2, 20, 200}));
}

TEST(Movement, OfALeafStaysTheLeafWhereNothingMoves) {
  Tensor x = ones({2}, {.requires_grad = true});
  EXPECT_TRUE(x.cpu().is_leaf());
  EXPECT_EQ(x.clone().grad_fn(), "CloneBackward");
  EXPECT_EQ(x.to(kFloat64).grad_fn(), "ToBackward");
  EXPECT_FALSE(x.to(kInt64).requires_grad());
}

TEST(Contiguous, GivesDenseMemoryAndGradients) {
  const Tensor x = randn({3, 4}, {.dtype = kFloat64});
  EXPECT_TRUE(x.t().contiguous().is_contiguous());
  EXPECT_FALSE(x.t().is_contiguous());
  gradcheck([](const std::vector<Tensor>& in) { return in[0].t().contiguous(); }, {x});
  gradcheck([](const std::vector<Tensor>& in) { return in[0].t().clone(); }, {x});
}

TEST(CopyInPlace, CarriesTheGradientOfItsSource) {
  const Tensor source = randn({3, 1}, {.dtype = kFloat64}), old = randn({2, 3, 4}, {.dtype = kFloat64});
  gradcheck(
      [](const std::vector<Tensor>& in) {
        Tensor target = in[1] * 3.0;
        target.copy_(in[0]);
        return target * in[1];
      },
      {source, old});
}

TEST(CopyInPlace, CrossesDevicesAndDtypesInTheGraph) {
  const TestDevices devices(2);
  Tensor x = ones({3}, {.device = "cuda:1", .requires_grad = true});
  Tensor target = zeros({2, 3}, {.dtype = kFloat64});
  target.copy_(x);
  EXPECT_EQ(target.grad_fn(), "CopyBackward");
  sum(target * 5.0).backward();
  EXPECT_EQ(x.grad().device(), Device("cuda:1"));
  EXPECT_EQ(values(x.grad()), std::vector<double>(3, 10));
}

TEST(CopyInPlace, IntoIntegersIsNotRecorded) {
  Tensor target = zeros({2}, {.dtype = kInt64});
  target.copy_(full({2}, 2.5, {.requires_grad = true}));
  EXPECT_FALSE(target.requires_grad());
  EXPECT_EQ(values(target), (std::vector<double>{2, 2}));
}

TEST(CopyInPlace, RefusesALeafThatRequiresAGradient) {
  Tensor leaf = zeros({2}, {.requires_grad = true});
  EXPECT_NE(thrown<AutogradError>([&] { leaf.copy_(ones({2})); }).find("[copy_] cannot change a leaf of shape [2]"),
            std::string::npos);
  EXPECT_EQ(values(leaf), (std::vector<double>{0, 0}));
  EXPECT_EQ(leaf.version(), 0u);
}

}  // namespace
}  // namespace lockstep
