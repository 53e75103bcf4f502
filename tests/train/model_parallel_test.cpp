// A model with parts on different devices trains as on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <lockstep/nn/functional.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/adam.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/random.h>

#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;

struct Halves : nn::Module<Halves> {
  nn::Linear first{8, 32, {.tensor = {.dtype = kFloat64}}}, second{32, 1, {.tensor = {.dtype = kFloat64}}};
  auto members() { return nn::members("first", first, "second", second); }

  Tensor forward(const Tensor& x) {
    const Tensor hidden = relu(first(x.to(first.weight.device())));
    return second(hidden.to(second.weight.device()));
  }
};

// Returns the parameters after some steps, with the first part on device a and the second on b.
std::vector<std::vector<double>> trained_on(Device a, Device b) {
  manual_seed(1);
  const Tensor x = randn({64, 8}, {.dtype = kFloat64});
  const Tensor y = sum(x * x, {1}, true) * 0.1;
  Halves model;
  model.first.to(a);
  model.second.to(b);
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    nn::mse_loss(model(x), y.to(b)).backward();
    optimizer.step();
  }
  EXPECT_EQ(model.first.weight.device(), a);
  EXPECT_EQ(model.second.weight.device(), b);
  std::vector<std::vector<double>> parameters;
  for (const Tensor& parameter : model.parameters()) parameters.push_back(values(parameter));
  return parameters;
}

TEST(ModelParallel, TrainsAsOnTheCpuAlone) {
  const SimulatedDevices devices({.count = 2, .seed = 1, .max_delay_us = 50});
  const auto expected = trained_on("cpu", "cpu");
  const std::pair<Device, Device> places[] = {{"cpu", "cuda:0"}, {"cuda:0", "cuda:1"}};
  for (const auto& [a, b] : places) {
    const auto got = trained_on(a, b);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].size(), expected[i].size());
      for (std::size_t k = 0; k < got[i].size(); ++k)
        ASSERT_NEAR(got[i][k], expected[i][k], 1e-12 * std::max(1.0, std::abs(expected[i][k])))
            << "parameter " << i << ", element " << k << ", on " << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace lockstep
