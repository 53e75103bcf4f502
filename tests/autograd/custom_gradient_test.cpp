// custom_gradient().
#include <gtest/gtest.h>

#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/gradcheck.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include <memory>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;
using Inputs = std::vector<Tensor>;

Tensor product(const Tensor& a, const Tensor& b) {
  const NoGrad unrecorded;
  return a * b;
}

Tensor own_product(const Tensor& a, const Tensor& b) {
  return custom_gradient("OwnProduct", product(a, b), {a, b}, [=](const Tensor& g) { return Inputs{g * b, g * a}; });
}

TEST(CustomGradient, FlowsToTheInputs) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    const Tensor a = tensor({1., 2.}, {.device = device, .requires_grad = true});
    const Tensor b = tensor({3., 5.}, {.device = device, .requires_grad = true});
    const Tensor y = own_product(a * 2.0, b);
    EXPECT_EQ(values(y), (std::vector<double>{6, 20}));
    sum(y).backward();
    EXPECT_EQ(values(a.grad()), (std::vector<double>{6, 10}));
    EXPECT_EQ(values(b.grad()), (std::vector<double>{2, 4}));
  }
}

TEST(CustomGradient, HasGradientsToo) {
  const Inputs inputs = {tensor({1., 2.}, {.dtype = kFloat64, .requires_grad = true}),
                         tensor({3., -5.}, {.dtype = kFloat64, .requires_grad = true})};
  gradcheck([](const Inputs& x) { return Inputs{own_product(x[0], x[1])}; }, inputs);
  gradgradcheck([](const Inputs& x) { return Inputs{own_product(x[0], x[1])}; }, inputs);
}

TEST(CustomGradient, MayBeAnythingAndMayBeMissing) {
  const Tensor a = tensor({1., 2.}, {.requires_grad = true}), b = tensor({1., 1.}, {.requires_grad = true});
  sum(custom_gradient("Reverse", a, {a}, [](const Tensor& g) { return Inputs{-g}; })).backward();
  EXPECT_EQ(values(a.grad()), (std::vector<double>{-1, -1}));
  sum(custom_gradient("First", product(a, b), {a, b}, [](const Tensor& g) { return Inputs{g, Tensor()}; })).backward();
  EXPECT_EQ(values(a.grad()), (std::vector<double>{0, 0}));
  EXPECT_FALSE(b.grad().defined());
}

TEST(CustomGradient, IsRecordedOnlyWhereAGradientIsNeeded) {
  const Tensor a = tensor({1., 2.}, {.requires_grad = true});
  const auto never = [](const Tensor&) -> Inputs { throw std::logic_error("called"); };
  EXPECT_FALSE(custom_gradient("Own", ones({2}), {ones({2})}, never).requires_grad());
  const NoGrad guard;
  EXPECT_FALSE(custom_gradient("Own", ones({2}), {a}, never).requires_grad());
}

TEST(CustomGradient, LetsGoAfterBackward) {
  const Tensor a = tensor({1., 2.}, {.requires_grad = true});
  const auto held = std::make_shared<int>();
  const Tensor y = sum(custom_gradient("Own", a, {a}, [held](const Tensor& g) { return Inputs{g}; }));
  EXPECT_EQ(held.use_count(), 2);
  y.backward();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_THROW(y.backward(), AutogradError);
}

TEST(CustomGradient, RefusesWhatDoesNotFit) {
  const TestDevices devices(1);
  const Tensor a = tensor({1., 2.}, {.requires_grad = true});
  const auto message = [&](const Inputs& gradients) {
    const Tensor y = sum(custom_gradient("Own", a, {a}, [=](const Tensor&) { return gradients; }));
    const std::string what = thrown<AutogradError>([&] { y.backward(); });
    return what.substr(0, what.find('\n'));
  };
  EXPECT_NE(message({}).find("[Own] expected 1 gradients, got 0"), std::string::npos);
  EXPECT_NE(
      message({ones({3})})
          .find("[Own] expected backward to return a gradient [2] float32 on cpu for input 0, got [3] float32 on cpu"),
      std::string::npos);
  EXPECT_NE(message({ones({2}, {.dtype = kFloat64})}).find("got [2] float64 on cpu"), std::string::npos);
  EXPECT_NE(message({ones({2}, {.device = "cuda:0"})}).find("got [2] float32 on cuda:0"), std::string::npos);
  EXPECT_FALSE(a.grad().defined());
  EXPECT_THROW(custom_gradient("Own", tensor({1, 2}), {a}, [](const Tensor& g) { return Inputs{g}; }), DTypeError);
  EXPECT_THROW(custom_gradient("Own", a, {a}, {}), InvalidArgument);
  EXPECT_THROW(custom_gradient("Own", Tensor(), {a}, [](const Tensor& g) { return Inputs{g}; }), InvalidArgument);
}

}  // namespace
}  // namespace lockstep
