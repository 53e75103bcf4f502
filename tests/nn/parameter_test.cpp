// Parameters and buffers: tensors with value semantics.
#include <lockstep/nn/module.h>

#include <gtest/gtest.h>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

TEST(Parameter, RequiresAGradientUnlessToldOtherwise) {
  EXPECT_TRUE(nn::Parameter(ones({2})).requires_grad());
  EXPECT_FALSE(nn::Parameter(ones({2}), {.requires_grad = false}).requires_grad());
  EXPECT_FALSE(nn::Buffer(ones({2})).requires_grad());
  EXPECT_FALSE(nn::Parameter().defined());
}

TEST(Parameter, OfIntegersIsRefusedUnlessItIsNotTrained) {
  EXPECT_EQ(thrown<DTypeError>([] { const nn::Parameter w{full({1}, 2)}; }),
            "[Parameter] expected a floating dtype for a parameter that is trained, got int64 of shape [1]: make it of "
            "floating numbers (2.0, not 2), or say .requires_grad = false");
  EXPECT_THROW(nn::Parameter(tensor({true, false})), DTypeError);
  const nn::Parameter counts(tensor({1, 2}), {.requires_grad = false});
  EXPECT_FALSE(counts.requires_grad());
  EXPECT_FALSE(copy(counts).requires_grad());
}

TEST(Parameter, DoesNotBecomeIntegersWhileItIsTrained) {
  nn::Parameter trained(full({2}, 3.)), frozen(full({2}, 3.), {.requires_grad = false}),
      lazy = nn::Parameter::lazy({2});
  EXPECT_THROW(trained.reset(tensor({1, 2})), DTypeError);
  EXPECT_THROW(trained.convert(kInt64), DTypeError);
  EXPECT_THROW(lazy.reset(tensor({1, 2})), DTypeError);
  EXPECT_FALSE(lazy.defined());
  EXPECT_EQ(values(trained), (std::vector<double>{3, 3}));
  EXPECT_TRUE(trained.requires_grad());
  frozen.convert(kInt64);
  EXPECT_EQ(frozen.dtype(), kInt64);
}

TEST(Parameter, IsALeafWhateverItIsMadeOf) {
  const Tensor x = ones({2}, {.requires_grad = true});
  const nn::Parameter parameter(x * 2.0);
  EXPECT_TRUE(parameter.is_leaf());
  EXPECT_THROW(nn::Parameter{Tensor()}, InvalidArgument);
}

TEST(Parameter, CopiesItsElements) {
  const nn::Parameter first(ones({2}));
  nn::Parameter second = copy(first);
  const NoGrad guard;
  second.fill_(5);
  EXPECT_EQ(values(first), (std::vector<double>{1, 1}));
  EXPECT_TRUE(second.requires_grad());
  EXPECT_FALSE(second.grad().defined());
}

TEST(Parameter, KeepsItsIdentityWhenAssignedValues) {
  const TestDevices devices(1);
  nn::Parameter parameter(zeros({2}, {.device = "cuda:0"}));
  const Tensor handle = parameter;
  parameter = nn::Parameter(ones({2}));
  EXPECT_EQ(parameter.device(), Device("cpu"));  // move assignment takes the temporary's identity and device
  nn::Parameter other(zeros({2}, {.device = "cuda:0"}));
  const Tensor kept = other;
  const nn::Parameter source(full({2}, 3.));
  other = source;
  EXPECT_TRUE(kept.is_same(other));
  EXPECT_EQ(other.device(), Device("cuda:0"));
  EXPECT_EQ(values(kept), (std::vector<double>{3, 3}));
  EXPECT_EQ(values(handle), (std::vector<double>{0, 0}));
}

TEST(Parameter, TakesAnotherShapeByReset) {
  nn::Parameter parameter(zeros({2}));
  const Tensor handle = parameter;
  sum(parameter * 2.0).backward();
  parameter.reset(ones({3, 3}, {.dtype = kFloat64}));
  EXPECT_TRUE(handle.is_same(parameter));
  EXPECT_EQ(handle.sizes(), (Shape{3, 3}));
  EXPECT_EQ(handle.dtype(), kFloat64);
  EXPECT_TRUE(handle.requires_grad());
  EXPECT_FALSE(handle.grad().defined());
  nn::Parameter lazy;
  lazy.reset(ones({4}));
  EXPECT_TRUE(lazy.requires_grad());
  nn::Buffer buffer;
  buffer.reset(ones({4}));
  EXPECT_FALSE(buffer.requires_grad());
}

TEST(Buffer, TakesTheElementsOfATensor) {
  nn::Buffer buffer(zeros({2}), nn::BufferSync::mean);
  const Tensor handle = buffer, given = full({2}, 3.);
  buffer = given;
  buffer = buffer + 1;
  EXPECT_EQ(values(handle), (std::vector<double>{4, 4}));
  EXPECT_EQ(values(given), (std::vector<double>{3, 3}));
  EXPECT_EQ(buffer.sync(), nn::BufferSync::mean);
  buffer = ones({3});
  EXPECT_EQ(buffer.sizes(), (Shape{3}));
  const std::string refused = testing::thrown<AutogradError>([&] { buffer = ones({3}, {.requires_grad = true}) * 2; });
  EXPECT_NE(refused.find("assign its detach()"), std::string::npos) << refused;
}

TEST(Parameter, ReplacedBetweenForwardAndBackwardIsFound) {
  nn::Parameter parameter(full({2}, 3.));
  const Tensor x = ones({2}, {.requires_grad = true});
  const Tensor y = sum(x * parameter);
  parameter.reset(full({2}, 100.));
  EXPECT_NE(testing::thrown<AutogradError>([&] { y.backward(); }).find("changed in place"), std::string::npos);
}

TEST(CopyToScope, MakesCopiesLandOnItsDevice) {
  const TestDevices devices(2);
  const nn::Parameter parameter(full({2}, 3.));
  const nn::CopyTo outer("cuda:0");
  EXPECT_EQ(nn::Parameter(parameter).device(), Device("cuda:0"));
  {
    const nn::CopyTo inner("cuda:1");
    const nn::Parameter copy(parameter);
    EXPECT_EQ(copy.device(), Device("cuda:1"));
    EXPECT_EQ(values(copy), (std::vector<double>{3, 3}));
    EXPECT_TRUE(copy.requires_grad());
  }
  EXPECT_EQ(nn::Parameter(parameter).device(), Device("cuda:0"));
}

}  // namespace
}  // namespace lockstep
