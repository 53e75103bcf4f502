#include <lockstep/optim/grad_scaler.h>

#include <gtest/gtest.h>

#include <limits>

#include <lockstep/core/error.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::thrown;
using lockstep::testing::values;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor parameter(double value, DType dtype = kFloat32, Device device = {}) {
  return full({3}, value, {.dtype = dtype, .device = device}).requires_grad_();
}

TEST(GradScaler, StepsAsWithoutIt) {
  const TestDevices devices(1);
  for (const char* device : {"cpu", "cuda:0"}) {
    Tensor p = parameter(1, kFloat32, device);
    SGD optimizer({p}, {.lr = 0.5});
    GradScaler scaler;
    scaler.scale(sum(p * 2.0)).backward();
    EXPECT_EQ(values(p.grad()), (std::vector<double>(3, 2 * 65536)));
    EXPECT_TRUE(scaler.step(optimizer));
    scaler.update();
    EXPECT_EQ(values(p), std::vector<double>(3, 0));
    EXPECT_EQ(scaler.get_scale(), 65536);
  }
}

TEST(GradScaler, SkipsAStepWhoseGradientsAreNotFinite) {
  const TestDevices devices(1);
  for (const char* device : {"cpu", "cuda:0"})
    for (const double bad : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
      Tensor p = parameter(1, kFloat32, device), q = parameter(1, kFloat32, device);
      SGD optimizer({p, q}, {.lr = 0.5});
      GradScaler scaler({.init_scale = 8});
      scaler.scale(sum(p) + sum(q * tensor({1.0, bad, 1.0}, {.dtype = kFloat32}).to(device))).backward();
      EXPECT_FALSE(scaler.step(optimizer));
      scaler.update();
      EXPECT_EQ(values(p), std::vector<double>(3, 1));
      EXPECT_EQ(scaler.get_scale(), 4);
    }
}

TEST(GradScaler, GrowsAfterAnIntervalOfGoodSteps) {
  Tensor p = parameter(1);
  SGD optimizer({p}, {.lr = 0.1});
  GradScaler scaler({.init_scale = 4, .growth_factor = 3, .growth_interval = 2});
  std::vector<double> scales;
  for (int i = 0; i < 4; ++i) {
    optimizer.zero_grad();
    scaler.scale(sum(p)).backward();
    scaler.step(optimizer);
    scaler.update();
    scales.push_back(scaler.get_scale());
  }
  EXPECT_EQ(scales, (std::vector<double>{4, 12, 12, 36}));
}

TEST(GradScaler, LeavesTrueGradientsAfterUnscaling) {
  Tensor p = parameter(1);
  SGD optimizer({p}, {.lr = 0.1});
  GradScaler scaler;
  scaler.scale(sum(p * 3.0)).backward();
  scaler.unscale_(optimizer);
  EXPECT_EQ(values(p.grad()), std::vector<double>(3, 3));
  EXPECT_EQ(thrown<InvalidArgument>([&] { scaler.unscale_(optimizer); }),
            "[GradScaler] expected update() before the next unscale_() of this optimizer, got unscale_() twice");
  EXPECT_TRUE(scaler.step(optimizer));
  EXPECT_EQ(thrown<InvalidArgument>([&] { scaler.step(optimizer); }),
            "[GradScaler] expected update() before the next step() of this optimizer, got step() twice");
}

TEST(GradScaler, GoesOnFromItsState) {
  Tensor p = parameter(1);
  SGD optimizer({p}, {.lr = 0.1});
  GradScaler scaler({.init_scale = 4, .growth_interval = 2}), other;
  scaler.scale(sum(p)).backward();
  scaler.step(optimizer);
  scaler.update();
  other.load_state_dict(scaler.state_dict());
  EXPECT_EQ(other.get_scale(), 4);
  other.step(optimizer);
  other.update();
  EXPECT_EQ(other.get_scale(), 8);
}

TEST(GradScaler, DoesNothingWhenItIsNotEnabled) {
  Tensor p = parameter(1);
  SGD optimizer({p}, {.lr = 1});
  GradScaler scaler({.enabled = false});
  scaler.scale(sum(p)).backward();
  EXPECT_TRUE(scaler.step(optimizer));
  scaler.update();
  EXPECT_EQ(values(p), std::vector<double>(3, 0));
}

TEST(GradScaler, RefusesOptionsOutOfRange) {
  EXPECT_EQ(thrown<InvalidArgument>([] { GradScaler({.growth_factor = 1}); }),
            "[GradScaler] expected growth_factor > 1, got 1");
  GradScaler scaler;
  EXPECT_EQ(thrown<InvalidArgument>([&] { scaler.update(); }),
            "[GradScaler] expected step() or unscale_() before update(), got update() without them");
}

TEST(MasterWeights, AddUpStepsBelowTheRounding) {
  const TestDevices devices(1);
  for (const char* device : {"cpu", "cuda:0"})
    for (const DType dtype : {kBFloat16, kFloat16}) {
      Tensor p = parameter(1, dtype, device);
      SGD optimizer({p}, {.lr = 1.0 / 4096});
      for (int step = 0; step < 64; ++step) {
        optimizer.zero_grad();
        sum(p).backward();
        optimizer.step();
      }
      EXPECT_EQ(values(p), std::vector<double>(3, 1 - 64.0 / 4096));
      EXPECT_EQ(optimizer.state_dict().at("state.0.master_weight").dtype(), kFloat32);
    }
}

TEST(MasterWeights, GoOnFromTheirState) {
  Tensor p = parameter(1, kBFloat16), q = parameter(1, kBFloat16);
  Adam a({p}, {.lr = 1e-4}), b({q}, {.lr = 1e-4});
  const auto step = [](Adam& optimizer, Tensor& of) {
    optimizer.zero_grad();
    sum(of).backward();
    optimizer.step();
  };
  for (int i = 0; i < 9; ++i) step(a, p);
  b.load_state_dict(a.state_dict());
  {
    const NoGrad guard;
    q.copy_(p);
  }
  for (int i = 0; i < 30; ++i) step(a, p), step(b, q);
  EXPECT_EQ(values(q), values(p));
  EXPECT_EQ(values(b.state_dict().at("state.0.master_weight")), values(a.state_dict().at("state.0.master_weight")));
}

TEST(MasterWeights, FollowAParameterThatIsChangedByHand) {
  Tensor p = parameter(1, kBFloat16);
  SGD optimizer({p}, {.lr = 0.5});
  sum(p).backward();
  optimizer.step();
  {
    const NoGrad guard;
    p.fill_(8);
  }
  optimizer.step();
  EXPECT_EQ(values(p), std::vector<double>(3, 7.5));
}

// After a step that failed, the gradients may be unscaled already: the next step must not take new ones for them.
TEST(GradScaler, TakesNewGradientsAfterAFailedStepOnlyOnceItIsTold) {
  SimulatedDevices devices({.count = 1});
  for (const bool loads : {false, true}) {
    Tensor p = parameter(1, kFloat32, Device::cuda(0));
    Adam optimizer({p}, {.lr = 0.1});
    GradScaler scaler({.init_scale = 1024});
    const StateDict saved = scaler.state_dict();
    const auto backward = [&] {
      optimizer.zero_grad();
      scaler.scale(sum(p)).backward();
    };
    backward();
    devices.fault().fail_allocation({.device = 0, .nth = 2});
    EXPECT_THROW(scaler.step(optimizer), OutOfMemory);
    devices.fault().clear();
    EXPECT_THROW(scaler.step(optimizer), InvalidArgument);
    EXPECT_THROW(scaler.unscale_(optimizer), InvalidArgument);
    if (loads)
      scaler.load_state_dict(saved);
    else
      scaler.update();
    backward();
    scaler.step(optimizer);
    EXPECT_EQ(values(p.grad()), std::vector<double>(3, 1));
    scaler.update();
  }
}

}  // namespace
}  // namespace lockstep::optim
