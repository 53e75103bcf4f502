// Hooks, layers and optimizers in combination with several devices.
#include <gtest/gtest.h>

#include <lockstep/nn/layers.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/lbfgs.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"

namespace lockstep::parts_of_models {
namespace {

TEST(ForwardHooks, RunInEachReplicaThoughTheyComeLate) {
  const TestDevices devices(2);
  nn::Linear layer(2, 1);
  DataParallel model(std::move(layer), {.device_ids = {0, 1}});
  model(ones({4, 2}, {.device = "cuda:0"}));
  model.module().register_forward_hook([](nn::ModuleBase&, const Tensor&, Tensor& out) { out = out * 0 + 3; });
  EXPECT_EQ(model(ones({4, 2}, {.device = "cuda:0"})).cpu().to_vector<float>(), (std::vector<float>{3, 3, 3, 3}));
}

TEST(MaxNorm, IsRefusedOnSeveralDevices) {
  const TestDevices devices(2);
  nn::Embedding layer(4, 2, {.max_norm = 1});
  DataParallel model(std::move(layer), {.device_ids = {0, 1}});
  EXPECT_THROW(model(tensor({0, 1, 2, 3}, {.device = "cuda:0"})), InvalidArgument);
}

TEST(LBFGSRefusals, OfAModelOnSeveralDevices) {
  const TestDevices devices(2);
  nn::Linear layer(2, 1, {.tensor = {.device = "cuda:0"}});
  DataParallel model(std::move(layer), {.device_ids = {0, 1}});
  optim::LBFGS optimizer(model.parameters());
  const Tensor x = ones({4, 2}, {.device = "cuda:0"});
  EXPECT_THROW(optimizer.step([&] {
    optimizer.zero_grad();
    Tensor loss = model(x).sum();
    loss.backward();
    return loss;
  }),
               InvalidArgument);
}

}  // namespace
}  // namespace lockstep::parts_of_models
