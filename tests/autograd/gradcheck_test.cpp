// The gradient check itself: it finds wrong gradients, and names their position.
#include <lockstep/autograd/gradcheck.h>

#include <gtest/gtest.h>

#include <string>

#include <lockstep/core/error.h>
#include <lockstep/tensor/creation.h>

#include "autograd/record.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using Inputs = std::vector<Tensor>;

Tensor doubles(std::initializer_list<double> values) { return tensor(values, {.dtype = kFloat64}); }

// x times `factor`, whose backward multiplies by `said`, and whose backward's backward by `said_again`.
Tensor times(const Tensor& x, double factor, double said, double said_again) {
  Tensor out = x.detach().clone().mul_(factor);
  if (autograd::records(x))
    autograd::record("Times", out, {&x},
                     [=](const Tensor& g) { return autograd::Gradients{times(g, said, said_again, said_again)}; });
  return out;
}

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const AutogradError& error) {
    return error.what();
  }
  return "";
}

TEST(Gradcheck, AcceptsARightGradient) {
  gradcheck([](const Inputs& x) { return times(x[0], 3, 3, 3); }, {doubles({1, -2})});
}

TEST(Gradcheck, NamesWhatIsWrong) {
  const std::string message = message_of([] {
    gradcheck(
        [](const Inputs& x) {
          return Inputs{x[0].clone(), times(x[1], 3, 2, 2)};
        },
        {doubles({1}), doubles({1, 5})});
  });
  EXPECT_EQ(message, "[gradcheck] expected the derivative 3 of output 1 at [0] by input 1 at [0], got 2");
}

TEST(Gradcheck, FindsAGradientThatIsMissing) {
  EXPECT_NE(
      message_of([] { gradcheck([](const Inputs& x) { return x[0].detach().mul_(1).clone(); }, {doubles({1})}); }), "");
}

TEST(Gradcheck, ChecksGradientsOfGradients) {
  const auto right_once = [](const Inputs& x) { return times(x[0], 3, 3, 2); };
  gradcheck(right_once, {doubles({1})});
  EXPECT_NE(message_of([&] { gradgradcheck(right_once, {doubles({1})}); }), "");
}

TEST(Gradcheck, LeavesInputsAsTheyAre) {
  const Tensor x = doubles({1, 2});
  gradcheck([](const Inputs& inputs) { return inputs[0].clone(); }, {x});
  EXPECT_FALSE(x.requires_grad());
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{1, 2}));
}

TEST(Gradcheck, WantsFloat64) {
  EXPECT_THROW(gradcheck([](const Inputs& x) { return x[0].clone(); }, {tensor({1., 2.})}), DTypeError);
}

TEST(Gradcheck, WorksOnADevice) {
  const TestDevices devices(1);
  gradcheck([](const Inputs& x) { return x[0].clone(); }, {doubles({1, 2}).cuda(0)});
}

}  // namespace
}  // namespace lockstep
