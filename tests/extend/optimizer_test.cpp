// An optimizer from outside of the library: its arithmetic, its state, models on several devices, and errors.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <lockstep/nn/activations.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/loss.h>
#include <lockstep/optim/rule.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "extend/kernels.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using testing::Lion;

Tensor parameter(const Tensor& values) {
  Tensor p = values.clone();
  p.requires_grad_();
  return p;
}

TEST(ExtendOptimizer, IsItsDefinition) {
  const TestDevices devices(1);
  for (const Device& device : {Device("cpu"), Device("cuda:0")}) {
    const TensorOptions exact = {.dtype = kFloat64, .device = device};
    const Tensor start = randn({1000}, exact);
    Tensor p = parameter(start);
    Lion lion({p}, {.lr = 0.01, .betas = {0.8, 0.95}, .weight_decay = 0.1});
    std::vector<double> expected = start.cpu().to_vector<double>(), mean(1000, 0.0);
    for (int step = 0; step < 5; ++step) {
      const Tensor g = randn({1000}, exact);
      p.set_grad(g);
      lion.step();
      const std::vector<double> gradient = g.cpu().to_vector<double>();
      for (std::size_t i = 0; i < 1000; ++i) {
        const double direction = 0.8 * mean[i] + (1 - 0.8) * gradient[i];
        expected[i] -= 0.01 * ((direction > 0 ? 1 : direction < 0 ? -1 : 0) + 0.1 * expected[i]);
        mean[i] = 0.95 * mean[i] + (1 - 0.95) * gradient[i];
      }
    }
    const std::vector<double> got = p.detach().cpu().to_vector<double>();
    for (std::size_t i = 0; i < 1000; ++i) ASSERT_NEAR(got[i], expected[i], 1e-12) << i;
    EXPECT_GT(p.version(), 0u);
  }
}

TEST(ExtendOptimizer, GoesOnFromItsStateDict) {
  const Tensor start = randn({100});
  Tensor p = parameter(start), q = parameter(start);
  Lion first({p}, {.lr = 0.01}), second({q}, {.lr = 1});
  const auto step = [](Lion& lion, Tensor& of, double gradient) {
    of.set_grad(full({100}, gradient));
    lion.step();
  };
  step(first, p, 0.5);
  q.detach().copy_(p.detach());
  const StateDict state = first.state_dict();
  EXPECT_NE(state.find("state.0.exp_avg"), nullptr);
  second.load_state_dict(state);
  EXPECT_EQ(second.options().lr, 0.01);
  for (const double gradient : {-0.01, 0.02, -3.0}) {
    step(first, p, gradient);
    step(second, q, gradient);
  }
  EXPECT_EQ(p.detach().to_vector<float>(), q.detach().to_vector<float>());
}

TEST(ExtendOptimizer, SixteenBitParametersHaveMasters) {
  Tensor p = parameter(ones({4}, {.dtype = kBFloat16}));
  Lion lion({p}, {.lr = 1e-4});  // far below the rounding of 1
  for (int step = 0; step < 100; ++step) {
    p.set_grad(ones({4}, {.dtype = kBFloat16}));
    lion.step();
  }
  EXPECT_NEAR(p.detach().to(kFloat32).to_vector<float>()[0], 0.99, 0.004);
  EXPECT_NE(lion.state_dict().find("state.0.master_weight"), nullptr);
}

std::vector<double> trained(int devices, bool shard) {
  manual_seed(3);
  nn::Sequential net(nn::Linear(3, 8), nn::Tanh(), nn::Linear(8, 2));
  std::vector<int> ids;
  for (int d = 0; d < devices; ++d) ids.push_back(d);
  const Tensor input = randn({12, 3}).to(kFloat64), target = randn({12, 2}).to(kFloat64);
  net.to(kFloat64);
  net.to(Device("cuda:0"));
  DataParallel model(std::move(net), {.device_ids = ids, .shard = shard ? Shard::optimizer_state : Shard::none});
  Lion lion(model.parameters(), {.lr = 0.01, .weight_decay = 0.05});
  for (int step = 0; step < 10; ++step) {
    lion.zero_grad();
    mse_loss(model(input), target.to(model.device())).backward();
    lion.step();
  }
  std::vector<double> all;
  for (const auto& [key, value] : model.module().state_dict())
    for (const double each : value.cpu().to_vector<double>()) all.push_back(each);
  return all;
}

TEST(ExtendOptimizer, TrainsModelsOnSeveralDevicesAsOnOne) {
  const TestDevices devices(3);
  const std::vector<double> one = trained(1, false);
  for (const int count : {2, 3})
    for (const bool shard : {false, true}) {
      const std::vector<double> several = trained(count, shard);
      ASSERT_EQ(several.size(), one.size());
      for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(several[i], one[i], 1e-12) << count << ' ' << shard;
    }
}

TEST(ExtendOptimizer, RefusesWrongOptionsAndSlots) {
  Tensor p = parameter(ones({2}));
  EXPECT_THROW(Lion({p}, {.lr = -1}), InvalidArgument);
  EXPECT_THROW(Lion({p}, {.betas = {0.9, 1}}), InvalidArgument);
  p.set_grad(ones({2}));
  EXPECT_THROW(testing::greedy_optimizer(p)->step(), InvalidArgument);
  EXPECT_THROW(testing::greedy_optimizer(p)->state_dict(), InvalidArgument);
  EXPECT_THROW(testing::careless_optimizer(p)->step(), InvalidArgument);
  EXPECT_EQ(p.detach().to_vector<float>(), (std::vector<float>{1, 1}));
}

// lockstep_kernels() does not compile this source.
struct HalveOptions {
  double lr = 1;
  static constexpr const char* kName = "Halve";
  void check() const {}
  auto members() { return lockstep::members("lr", lr); }
};
struct HalveRule {
  template <class T>
  void operator()(T& p, T) const {
    p = p / 2;
  }
};
struct Halve final : optim::OptimizerWith<HalveOptions> {
  using OptimizerWith::OptimizerWith;
  std::vector<optim::Slot> slots(std::size_t) const override { return {}; }
  void update(std::size_t, const optim::Batch& batch) const override { optim::apply<>("halve", 1, HalveRule(), batch); }
};

TEST(ExtendOptimizer, AGpuRefusesARuleOfTheHostAlone) {
  const TestDevices devices(1);
  for (const Device& device : {Device("cpu"), Device("cuda:0")}) {
    Tensor p = parameter(full({3}, 8., {.device = device}));
    p.set_grad(ones({3}, {.device = device}));
    Halve halve({p});
    const bool runs = device.is_cpu() || are_simulated();
    if (runs)
      halve.step();
    else
      EXPECT_THROW(halve.step(), InvalidArgument);
    EXPECT_EQ(p.detach().cpu().to_vector<float>()[2], runs ? 4 : 8);
  }
}

}  // namespace
}  // namespace lockstep
