// DetectAnomaly, InferenceMode, and the methods for hooks and backward options.
#include <lockstep/autograd/anomaly.h>

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

Tensor zero_and_four(const char* device = "cpu") { return tensor({0., 4.}, device).requires_grad_(); }
// Only the backward of sqrt computes 0 / 0: the loss is finite.
Tensor bad_loss(const Tensor& x) { return (exp(sqrt(x)) * 0).sum(); }

TEST(DetectAnomaly, NamesTheForwardOperation) {
  const Tensor x = zero_and_four();
  const Tensor loss = bad_loss(x);
  const DetectAnomaly guard;
  const std::string error = thrown<AutogradError>([&] { loss.backward(); });
  EXPECT_NE(error.find("SqrtBackward for input 0 of the operation Sqrt"), std::string::npos) << error;
  EXPECT_NE(error.find("[2]"), std::string::npos) << error;
  EXPECT_NE(error.find("check the inputs of that operation in forward"), std::string::npos) << error;
  EXPECT_FALSE(x.grad().defined());
}

TEST(DetectAnomaly, InGradientsAndOnDevices) {
  const TestDevices devices(2);
  const autograd::detect_anomaly guard;
  const Tensor x = zero_and_four();
  EXPECT_THROW(gradients({bad_loss(x)}, {x}), AutogradError);
  for (const char* device : {"cuda:0", "cuda:1"}) {
    const Tensor there = zero_and_four(device);
    EXPECT_THROW(bad_loss(there).backward(), AutogradError);
  }
  const Tensor both = bad_loss(zero_and_four("cuda:1")).to("cuda:0") + zero_and_four("cuda:0").sum();
  EXPECT_THROW(both.backward(), AutogradError);
}

TEST(DetectAnomaly, TellsWhoseNanItIs) {
  const autograd::DetectAnomalyGuard guard;
  const Tensor x = zero_and_four(), y = x * 2;
  const std::string error =
      thrown<AutogradError>([&] { y.backward(full({2}, std::numeric_limits<double>::quiet_NaN())); });
  EXPECT_NE(error.find("has NaN already"), std::string::npos) << error;
}

TEST(DetectAnomaly, LooksWithinItsScopeAndPassesWhatIsFinite) {
  {
    const DetectAnomaly guard;
    {
      const DetectAnomaly off(false);
      EXPECT_NO_THROW(bad_loss(zero_and_four()).backward());
    }
    EXPECT_THROW(bad_loss(zero_and_four()).backward(), AutogradError);
    const Tensor x = zero_and_four();
    (x * x / 0.).sum();  // NaN in forward, from which no gradient comes
    EXPECT_NO_THROW((x * x).sum().backward());
    EXPECT_EQ(values(x.grad()), (std::vector<double>{0, 8}));
  }
  EXPECT_NO_THROW(bad_loss(zero_and_four()).backward());
}

TEST(InferenceMode, RecordsNothing) {
  const Tensor x = zero_and_four();
  {
    const InferenceMode guard;
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE((x * 2).requires_grad());
    const InferenceMode recording(false);
    EXPECT_TRUE((x * 2).requires_grad());
  }
  EXPECT_TRUE((x * 2).requires_grad());
}

TEST(BackwardOptions, AsAMethodsArgument) {
  const Tensor x = zero_and_four();
  const Tensor y = (x * x).sum();
  y.backward({.retain_graph = true});
  y.backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{0, 16}));
  EXPECT_THROW(y.backward(), AutogradError);
  const Tensor z = x * x;
  z.backward(tensor({1., 2.}), {.retain_graph = true});
  z.backward(tensor({1., 2.}));
  EXPECT_EQ(values(x.grad()), (std::vector<double>{0, 48}));
}

TEST(RegisterHook, AsAMethod) {
  const Tensor x = zero_and_four(), y = x * 2;
  std::vector<double> seen;
  y.register_hook([&](const Tensor& gradient) { seen = values(gradient); });
  const HookHandle tripled = x.register_hook([](Tensor gradient) { return gradient * 3; });
  y.sum().backward();
  EXPECT_EQ(seen, (std::vector<double>{1, 1}));
  EXPECT_EQ(values(x.grad()), (std::vector<double>{6, 6}));
  tripled.remove();
  (x * 2).sum().backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{8, 8}));
  EXPECT_THROW(tensor({1.}).register_hook([](const Tensor&) {}), AutogradError);
}

TEST(RegisterHook, ThatReturnsNothing) {
  const Tensor x = zero_and_four();
  int calls = 0;
  register_hook(x, [&](const Tensor&) { ++calls; });
  (x * 2).sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(x.grad()), (std::vector<double>{2, 2}));
}

}  // namespace
}  // namespace lockstep
