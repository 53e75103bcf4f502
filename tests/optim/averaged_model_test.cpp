// Averaged models against PyTorch's: tests/reference/optimizer_paths.json.
#include <gtest/gtest.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/averaged_model.h>
#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>

#include "reference/data.h"
#include "support/test_devices.h"

namespace lockstep::averaged_model {
namespace {

using namespace optim::swa_utils;
using reference::Json;

nn::Sequential net() { return nn::Sequential(nn::Linear(2, 2), nn::BatchNorm1d(2)); }

// The same training as in make_optimizer_paths.py.
StateDict averaged(const AveragedModelOptions& options) {
  nn::Sequential model = net();
  model.to(kFloat64);
  const NoGrad guard;
  for (Tensor parameter : model.parameters())
    parameter.copy_(linspace(-1, 1, parameter.numel(), {.dtype = kFloat64}).view(parameter.sizes()));
  AveragedModel average(model, options);
  for (int step = 0; step < 4; ++step) {
    for (Tensor parameter : model.parameters()) parameter.mul_(0.5).add_(step);
    for (Tensor buffer : model.buffers()) buffer.add_(step + 1);
    average.update_parameters(model);
  }
  return average.state_dict();
}

std::vector<double> flat(const Json& json) {
  if (!json.is_array()) return {json.get<double>()};
  std::vector<double> all;
  for (const Json& part : json)
    for (const double value : flat(part)) all.push_back(value);
  return all;
}

void expect_as(const char* name, const StateDict& got) {
  static const Json file = reference::read_json(reference::folder() + "/optimizer_paths.json");
  const Json& expected = file.at("averages").at(name);
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (const auto& [key, value] : got) {
    const std::vector<double> wanted = flat(expected.at(key)), values = value.cpu().to(kFloat64).to_vector<double>();
    ASSERT_EQ(values.size(), wanted.size()) << key;
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], wanted[i], 1e-12) << name << ' ' << key;
  }
}

TEST(AveragedModel, IsTheMeanOfAllModels) { expect_as("swa", averaged({})); }
TEST(AveragedModel, AveragesBuffersToo) { expect_as("swa of buffers", averaged({.use_buffers = true})); }
TEST(AveragedModel, MovesExponentially) { expect_as("ema", averaged({.avg_fn = get_ema_avg_fn(0.75)})); }

TEST(AveragedModel, MayBeOnAnotherDevice) {
  const TestDevices devices(1);
  const StateDict got = averaged({.device = "cuda:0", .avg_fn = get_ema_avg_fn(0.75)});
  EXPECT_EQ(got.at("module.0.weight").device(), Device("cuda:0"));
  expect_as("ema", got);
}

TEST(AveragedModel, RunsItsAverageAndLeavesTheModelAlone) {
  nn::Linear layer(1, 1);
  const NoGrad guard;
  layer.weight.fill_(2);
  layer.bias->fill_(0);
  AveragedModel average(layer);
  average.update_parameters(layer);
  layer.weight.fill_(4);
  average.update_parameters(layer);
  EXPECT_EQ(average(ones({1, 1})).item<float>(), 3);
  EXPECT_EQ(layer(ones({1, 1})).item<float>(), 4);
}

TEST(AveragedModel, RefusesAnotherModelAndChangesNothing) {
  AveragedModel average(nn::Linear(2, 2));
  const double before = average.module.weight.detach().sum().item<double>();
  EXPECT_THROW(average.update_parameters(nn::Linear(2, 3)), InvalidArgument);
  EXPECT_THROW(average.update_parameters(nn::Linear(2, 2, false)), InvalidArgument);
  EXPECT_THROW(get_ema_avg_fn(1.5), InvalidArgument);
  EXPECT_EQ(average.module.weight.detach().sum().item<double>(), before);
  EXPECT_EQ(average.n_averaged.item<std::int64_t>(), 0);
}

}  // namespace
}  // namespace lockstep::averaged_model
