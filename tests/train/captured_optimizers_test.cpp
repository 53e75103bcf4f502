// Optimizers in captured steps: RAdam's first steps, and why LBFGS cannot be captured.
#include <gtest/gtest.h>

#include <lockstep/nn/layers.h>
#include <lockstep/optim/lbfgs.h>
#include <lockstep/optim/radam.h>
#include <lockstep/tensor/random.h>
#include <lockstep/train/captured_step.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/captured.h"

namespace lockstep::train {
namespace {

Bits radam_steps(bool captured) {
  const TestDevices devices(1);
  GeneratorState random{.seed = 5};
  const GeneratorGuard guard(random);
  nn::Linear model(4, 2);
  model.to(Device::cuda(0));
  optim::RAdam optimizer(model.parameters(), {.lr = 0.05});
  const auto function = [&](const Tensor& x) {
    optimizer.zero_grad();
    Tensor loss = model(x).square().mean();
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
  CapturedStep step(function);
  Bits bits;
  for (int i = 0; i < 12; ++i) {  // the sixth step is the first rectified one
    const Tensor x = randn({3, 4}, Device::cuda(0));
    bits.add(captured ? step(x) : function(x));
  }
  bits.add(model.state_dict());
  return bits;
}

TEST(CapturedOptimizers, RAdamIsRectifiedWhereAnEagerOneIs) { EXPECT_EQ(radam_steps(true), radam_steps(false)); }

TEST(CapturedOptimizers, LBFGSIsRefusedSinceItReadsTheLoss) {
  const TestDevices devices(1);
  nn::Linear model(4, 2);
  model.to(Device::cuda(0));
  optim::LBFGS optimizer(model.parameters(), {.lr = 0.1, .max_iter = 2});
  CapturedStep step([&](const Tensor& x) {
    return optimizer.step([&] {
      optimizer.zero_grad();
      Tensor loss = model(x).square().mean();
      loss.backward();
      return loss;
    });
  });
  const Tensor x = ones({3, 4}, Device::cuda(0));
  step(x);
  step(x);
  EXPECT_THROW(step(x), InvalidArgument);
}

}  // namespace
}  // namespace lockstep::train
