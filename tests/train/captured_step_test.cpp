// Captured steps give the same bits as eager ones; and what they reject.
#include <lockstep/train/captured_step.h>

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/nn/activations.h>
#include <lockstep/nn/averaged_model.h>
#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/dropout.h>
#include <lockstep/nn/functional.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/module.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/schedule.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/captured.h"

namespace lockstep::train {
namespace {

using testing::thrown;

constexpr int kSteps = 103;

// Returns the parameters, buffers and state after kSteps steps, and the loss of each step.
Bits train(int devices, bool captured, bool sharded = false) {
  const TestDevices there(devices);
  GeneratorState random{.seed = 5};
  const GeneratorGuard guard(random);
  std::vector<int> ids;
  for (int d = 0; d < devices; ++d) ids.push_back(d);
  DataParallel model(Net{}, {.device_ids = ids, .shard = sharded ? Shard::optimizer_state : Shard::none});
  optim::AdamW optimizer(model.parameters(), {.lr = 0.01, .weight_decay = 0.1});
  optim::CosineAnnealingLR schedule(optimizer, {.T_max = 60});
  const auto function = [&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    Tensor loss = nn::functional::mse_loss(model.forward(x), y);
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 0.5);
    optimizer.step();
    schedule.step();
    return loss.detach();
  };
  CapturedStep step(function);
  Bits bits;
  for (int i = 0; i < kSteps; ++i) {
    const Tensor x = randn({10, 6}), y = randn({10, 3});
    bits.add(captured ? step(x, y) : function(x.to(Device::cuda(0)), y.to(Device::cuda(0))));
  }
  EXPECT_EQ(step.is_captured(), captured);
  for (const auto& [name, tensor] : model.state_dict()) bits.add(tensor);
  for (const auto& [name, tensor] : optimizer.state_dict()) bits.add(tensor);
  bits.values.push_back(float(optimizer.lr()));
  bits.values.push_back(float(random.offset));
  return bits;
}

class CapturedSteps : public ::testing::TestWithParam<int> {};

TEST_P(CapturedSteps, AreEagerOnesBitForBit) { EXPECT_EQ(train(GetParam(), true), train(GetParam(), false)); }

TEST_P(CapturedSteps, AreEagerOnesWhereStateIsSharded) {
  EXPECT_EQ(train(GetParam(), true, true), train(GetParam(), false, true));
}

INSTANTIATE_TEST_SUITE_P(Devices, CapturedSteps, ::testing::Values(1, 2, 3));

TEST(CapturedStep, AllocatesNothingOnceItIsCaptured) {
  const TestDevices there(1);
  Job job;
  CapturedStep step([&](const Tensor& x) { return job.step(x); });
  const Tensor x = ones({8, 4}, Device::cuda(0));
  for (int i = 0; i < 4; ++i) step(x);
  ASSERT_TRUE(step.is_captured());
  const std::uint64_t before = memory_stats(Device::cuda(0)).allocations;
  for (int i = 0; i < 10; ++i) step(x);
  EXPECT_EQ(memory_stats(Device::cuda(0)).allocations, before);
}

TEST(CapturedStep, TakesBatchesOfOtherShapesEagerly) {
  const TestDevices there(1);
  GeneratorState random{.seed = 2};
  const GeneratorGuard guard(random);
  const auto run = [&](bool captured) {
    random = {.seed = 2};
    Job job;
    CapturedStep step([&](const Tensor& x) { return job.step(x); });
    Bits bits;
    for (int i = 0; i < 12; ++i) {
      const Tensor x = randn({i % 4 == 3 ? 3 : 8, 4});
      bits.add(captured ? step(x) : job.step(x.to(Device::cuda(0))));
    }
    for (const Tensor& parameter : job.model.parameters()) bits.add(parameter);
    return bits;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(CapturedStep, GoesOnEagerlyFromWhereItStands) {
  const TestDevices there(1);
  const auto run = [&](int captured) {
    GeneratorState random{.seed = 3};
    const GeneratorGuard guard(random);
    Job job;
    Bits bits;
    {
      CapturedStep step([&](const Tensor& x) { return job.step(x); });
      for (int i = 0; i < captured; ++i) bits.add(step(randn({8, 4})));
    }
    for (int i = captured; i < 20; ++i) bits.add(job.step(randn({8, 4}).to(Device::cuda(0))));
    for (const Tensor& parameter : job.model.parameters()) bits.add(parameter);
    return bits;
  };
  EXPECT_EQ(run(10), run(0));
}

TEST(CapturedStep, SeesOptionsThatChange) {
  const TestDevices there(1);
  const auto run = [&](bool captured) {
    GeneratorState random{.seed = 3};
    const GeneratorGuard guard(random);
    Job job;
    CapturedStep step([&](const Tensor& x) { return job.step(x); });
    Bits bits;
    for (int i = 0; i < 12; ++i) {
      if (i == 7) job.optimizer->set_lr(0.5);
      if (i == 9) job.optimizer->options().weight_decay = 0.25;
      const Tensor x = randn({8, 4});
      bits.add(captured ? step(x) : job.step(x.to(Device::cuda(0))));
    }
    return bits;
  };
  EXPECT_EQ(run(true), run(false));
}

// The other parameter has taken equally many steps at the capture, and takes no more.
TEST(CapturedStep, CountsTheStepsOfParametersThatStep) {
  const TestDevices there(1);
  const auto run = [](bool captured) {
    Tensor rests = ones({3}, Device::cuda(0)), moves = ones({3}, Device::cuda(0));
    rests.requires_grad_();
    moves.requires_grad_();
    optim::Adam optimizer({rests, moves}, {.lr = 0.1});
    const auto take = [&](Tensor& parameter, const Tensor& x) {
      optimizer.zero_grad();
      (parameter * x).square().sum().backward();
      optimizer.step();
    };
    for (int i = 0; i < 3; ++i) take(rests, ones({3}, Device::cuda(0)));
    CapturedStep step([&](const Tensor& x) { take(moves, x); });
    for (int i = 0; i < 9; ++i) {
      const Tensor x = full({3}, 1 + i, Device::cuda(0));
      captured ? void(step(x)) : take(moves, x);
    }
    Bits bits;
    bits.add(rests);
    bits.add(moves);
    return bits;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(CapturedStep, RefusesWhatReadsValuesOnTheHost) {
  const TestDevices there(1);
  Job job;
  CapturedStep step([&](const Tensor& x) {
    const Tensor loss = job.step(x);
    if (loss.item<float>() > 1e9) job.optimizer->set_lr(0);
    return loss;
  });
  const Tensor x = ones({8, 4}, Device::cuda(0));
  for (int i = 0; i < 2; ++i) step(x);
  const std::string error = thrown<InvalidArgument>([&] { step(x); });
  EXPECT_NE(error.find("a copy to the host"), std::string::npos) << error;
  EXPECT_NE(error.find("while a training step was captured"), std::string::npos) << error;
  job.step(x).item<float>();  // the devices still work
}

TEST(CapturedStep, RefusesCopiesFromTheHost) {
  const TestDevices there(1);
  Job job;
  CapturedStep step([&](const Tensor& x) { return job.step(x + ones({8, 4}).to(Device::cuda(0))); });
  const Tensor x = ones({8, 4}, Device::cuda(0));
  for (int i = 0; i < 2; ++i) step(x);
  const std::string error = thrown<InvalidArgument>([&] { step(x); });
  EXPECT_NE(error.find("a copy from the host"), std::string::npos) << error;
}

TEST(CapturedStep, RunsEagerlyOnTheCpu) {
  if (!are_simulated()) GTEST_SKIP() << "there are cards";
  nn::Linear model(4, 2);
  int calls = 0;
  CapturedStep step([&](const Tensor& x) {
    ++calls;
    return model(x).sum();
  });
  for (int i = 0; i < 5; ++i) step(ones({1, 4}));
  EXPECT_EQ(calls, 5);
  EXPECT_FALSE(step.is_captured());
}

TEST(CapturedStep, RefusesNoEagerStep) {
  const auto make = [] { CapturedStep step([](const Tensor& x) { return x; }, {.eager_steps = 0}); };
  EXPECT_NE(thrown<InvalidArgument>(make).find("at least 1 eager step, got 0"), std::string::npos);
}

TEST(CapturedStepRefuses, AveragesOfTheModelWhichCountOnTheHost) {
  const TestDevices devices(1);
  nn::Linear net(2, 1);
  net.to("cuda:0");
  optim::swa_utils::AveragedModel<nn::Linear> average(net);
  CapturedStep step([&](const Tensor& x) {
    const Tensor y = sum(net(x));
    average.update_parameters(net);
    return y;
  });
  EXPECT_NE(thrown<InvalidArgument>([&] {
              step(ones({3, 2}).cuda());
            }).find("call it after the captured step"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::train
