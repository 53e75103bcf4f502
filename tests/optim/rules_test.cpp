// Each optimizer's arithmetic, for every option, dtype and kind of device, against naive scalar code.
#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/ops/reduce.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/adamax.h>
#include <lockstep/tensor/creation.h>

#include "optim/cases.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using testing::OptimizerCase;
using testing::values_in;

void expect_naive(const OptimizerCase& which, Device device, DType dtype, int steps, double tolerance) {
  const std::vector<Tensor> parameters = testing::make_parameters({device}, dtype);
  std::vector<std::vector<double>> start;
  for (const Tensor& parameter : parameters) start.push_back(values_in(parameter));
  const auto optimizer = which.make(parameters);
  for (int step = 0; step < steps; ++step) {
    testing::set_gradients(parameters, step);
    optimizer->step();
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<double> got = values_in(parameters[i]);
    for (std::size_t e = 0; e < got.size(); e += 1 + e / 64) {  // all elements of small parameters
      std::vector<double> gradients;
      for (int step = 0; step < steps; ++step) gradients.push_back(testing::some_gradient(i, std::int64_t(e), step));
      const double expected = which.naive(start[i][e], gradients);
      ASSERT_NEAR(got[e], expected, tolerance * (1 + std::abs(expected)))
          << which.name << " on " << device << " in " << dtype << ", parameter " << i << ", element " << e;
    }
  }
}

TEST(Rules, AreThoseOfTheDocumentationOnTheCpu) {
  for (const OptimizerCase& which : testing::optimizer_cases()) expect_naive(which, "cpu", kFloat64, 20, 1e-11);
}

TEST(Rules, AreThoseOfTheDocumentationOnASimulatedDevice) {
  const TestDevices devices(1);
  for (const OptimizerCase& which : testing::optimizer_cases()) expect_naive(which, "cuda:0", kFloat64, 20, 1e-11);
}

TEST(Rules, HoldInFloat32) {
  for (const OptimizerCase& which : testing::optimizer_cases()) expect_naive(which, "cpu", kFloat32, 20, 2e-4);
}

// As in torch.maximum(), a NaN stays, although comparisons with it are false.
TEST(Rules, KeepNanInTheGreatestOfTheirStates) {
  const auto greatest_after = [](optim::Optimizer& optimizer, Tensor& parameter, const char* key) {
    std::vector<double> found;
    for (const double g : {1., double(NAN), 2.}) {
      parameter.set_grad(full({33}, g));
      optimizer.step();
      found.push_back(sum(*optimizer.state_dict().find(key)).item<double>());
    }
    return found;
  };
  Tensor a = ones({33}).requires_grad_(), b = ones({33}).requires_grad_();
  optim::Adamax adamax({a}, {});
  optim::Adam amsgrad({b}, {.amsgrad = true});
  for (const std::vector<double>& sums :
       {greatest_after(adamax, a, "state.0.exp_inf"), greatest_after(amsgrad, b, "state.0.max_exp_avg_sq")}) {
    EXPECT_FALSE(std::isnan(sums[0]));
    EXPECT_TRUE(std::isnan(sums[1]));
    EXPECT_TRUE(std::isnan(sums[2]));
  }
}

// The parameter is rounded after each step, nothing else.
TEST(Rules, HoldIn16Bits) {
  for (const OptimizerCase& which : testing::optimizer_cases()) {
    expect_naive(which, "cpu", kFloat16, 3, 0.01);
    expect_naive(which, "cpu", kBFloat16, 3, 0.08);
  }
}

// Parameters and gradients that are views, whose first element is at any offset behind aligned memory.
TEST(Rules, HoldWhereverParametersBegin) {
  const TestDevices devices(1);
  constexpr std::int64_t kLength = 136, kMost = 16;
  for (const Device& device : {Device(), Device("cuda:0")})
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16})
      for (const OptimizerCase& which : testing::optimizer_cases()) {
        const auto trained = [&](std::int64_t offset) {
          const Tensor values = full({offset + kLength + kMost}, 77, {.dtype = dtype, .device = device});
          const Tensor gradients = full({offset + kLength + kMost}, 0.25, {.dtype = dtype, .device = device});
          Tensor parameter = values.narrow(0, offset, kLength);
          parameter.copy_(arange(double(kLength), {.dtype = dtype, .device = device}) / double(kLength));
          parameter = parameter.detach().requires_grad_();
          const auto optimizer = which.make({parameter});
          for (int step = 0; step < 2; ++step) {
            parameter.set_grad(gradients.narrow(0, offset, kLength));
            optimizer->step();
          }
          for (const Tensor& beside : {values.narrow(0, 0, offset), values.narrow(0, offset + kLength, kMost)})
            for (const double value : values_in(beside)) EXPECT_EQ(value, 77) << which.name;
          return values_in(parameter);
        };
        const std::vector<double> expected = trained(0);
        for (std::int64_t offset = 1; offset < (device.is_cpu() ? kMost : 8); ++offset)  // packs are of 16 bytes
          ASSERT_EQ(trained(offset), expected) << which.name << " in " << dtype << " on " << device << ", " << offset;
      }
}

}  // namespace
}  // namespace lockstep
