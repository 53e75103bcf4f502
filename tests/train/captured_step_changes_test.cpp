// Changes between captured steps: the results equal those of eager steps.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/functional.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/schedule.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>
#include <lockstep/train/captured_step.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/captured.h"

namespace lockstep::train {
namespace {

using testing::thrown;

constexpr int kLoopSteps = 16;

std::vector<int> first_gpus(int count) {
  std::vector<int> ids;
  for (int d = 0; d < count; ++d) ids.push_back(d);
  return ids;
}

// A training loop with captured or eager steps.
struct Loop {
  Loop(int devices, bool is_captured, bool sharded)
      : model(Net{}, {.device_ids = first_gpus(devices), .shard = sharded ? Shard::optimizer_state : Shard::none}),
        optimizer(model.parameters(), {.lr = 0.05}),
        captured(is_captured) {}

  Tensor step(const Tensor& x, const Tensor& y) {
    if (clears) optimizer.zero_grad();
    const Tensor loss = nn::functional::mse_loss(model(x), y);
    loss.backward();
    if (steps) optimizer.step();
    return loss.detach();
  }
  Net& net() { return model.module(); }
  void look() {  // user code that reads state after a step
    bits.add(model.state_dict());
    bits.add(optimizer.state_dict());
    for (const Tensor& parameter : model.parameters()) {
      if (const Tensor gradient = parameter.grad(); gradient.defined()) bits.add(gradient);
    }
  }

  DataParallel<Net> model;
  optim::AdamW optimizer;
  const bool captured;
  bool clears = true, steps = true;  // inside the step
  Bits bits;
};

using Act = std::function<void(Loop&, int)>;

struct Result {
  Bits bits;
  int launches;  // replayed steps
};

// `act` is called before each step. Visible state is recorded after each step from `looks_from` on.
Result run(int devices, bool captured, const Act& act, bool sharded = false, int looks_from = 0,
           const std::function<void(Loop&)>& prepare = {}) {
  const TestDevices there(devices);
  GeneratorState random{.seed = 5};
  const GeneratorGuard guard(random);
  Loop loop(devices, captured, sharded);
  if (prepare) prepare(loop);
  int calls = 0;
  const auto function = [&](const Tensor& x, const Tensor& y) {
    ++calls;
    return loop.step(x, y);
  };
  CapturedStep step(function);
  for (int i = 0; i < kLoopSteps; ++i) {
    act(loop, i);
    const Tensor x = randn({10, 6}), y = randn({10, 3});
    loop.bits.add(captured ? step(x, y) : function(x.to(Device::cuda(0)), y.to(Device::cuda(0))));
    if (i < looks_from) continue;
    loop.look();
    for (const auto& [name, tensor] : loop.net().state_dict()) loop.bits.values.push_back(float(tensor.version()));
  }
  loop.look();
  return {loop.bits, kLoopSteps - calls};
}

class CapturedStepChanges : public ::testing::TestWithParam<int> {
 protected:
  // Runs the loop with captured and with eager steps, and compares.
  static void expect_as_eager(const Act& act, bool sharded = false, int looks_from = kLoopSteps,
                              const std::function<void(Loop&)>& prepare = {}) {
    const Result captured = run(GetParam(), true, act, sharded, looks_from, prepare);
    EXPECT_EQ(captured.bits, run(GetParam(), false, act, sharded, looks_from, prepare).bits);
    EXPECT_GE(captured.launches, 4) << "the host took almost all steps itself";
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, CapturedStepChanges, ::testing::Values(1, 2, 3));

TEST_P(CapturedStepChanges, LeavesWhatAnEagerStepLeaves) {
  expect_as_eager([](Loop&, int) {}, false, 0);
}

TEST_P(CapturedStepChanges, LeavesShardedGradients) {
  expect_as_eager(
      [](Loop& loop, int i) {
        for (const Tensor& parameter : loop.model.parameters())
          if (i > 8) loop.bits.add(parameter.grad());
      },
      true);
}

TEST_P(CapturedStepChanges, SeesWeightsSetByHand) {
  expect_as_eager([](Loop& loop, int i) {
    const NoGrad guard;
    if (i == 6) loop.net().out.weight.fill_(0.25);
    if (i == 9) loop.net().in.weight[1] = ones({6}, Device::cuda(0));
  });
}

TEST_P(CapturedStepChanges, SeesForwardHooksThatComeAndGo) {
  HookHandle handle;
  expect_as_eager([&](Loop& loop, int i) {
    if (i == 6)
      handle = loop.net().norm.register_forward_hook(
          [](nn::ModuleBase&, const Tensor&, Tensor& output) { output = output * 2; });
    if (i == 9) handle.remove();
  });
}

TEST_P(CapturedStepChanges, SeesAGroupOfParametersThatIsAdded) {
  expect_as_eager([](Loop& loop, int i) {
    if (i == 6) loop.optimizer.add_param_group({{ones({2}, Device::cuda(0)).requires_grad_()}, {.lr = 0.5}});
  });
}

TEST_P(CapturedStepChanges, SeesWeightsThatAreLoaded) {
  StateDict saved;
  expect_as_eager([&](Loop& loop, int i) {
    if (i == 2) {
      saved = {};
      for (const auto& [name, tensor] : loop.net().state_dict()) saved.add(name, tensor.clone());
    }
    if (i == 7) loop.net().load_state_dict(saved), saved = {};
  });
}

TEST_P(CapturedStepChanges, SeesAFrozenWeight) {
  expect_as_eager(
      [](Loop& loop, int i) {
        const NoGrad guard;
        if (i == 6) loop.net().in.weight.fill_(0.125);
      },
      false, kLoopSteps, [](Loop& loop) { loop.net().in.weight.requires_grad_(false); });
}

TEST_P(CapturedStepChanges, SeesStatisticsSetByHand) {
  expect_as_eager([](Loop& loop, int i) {
    if (i == 6) loop.net().norm.running_mean->fill_(0.5);
    if (i > 8) {
      const NoGrad guard;
      loop.model.eval();
      loop.bits.add(loop.model(ones({6, 6})));
      loop.model.train();
    }
  });
}

TEST_P(CapturedStepChanges, LetsAutocastSeeTheWeights) {
  std::unique_ptr<Autocast> region;
  expect_as_eager([&](Loop& loop, int i) {
    if (i == 0) region = std::make_unique<Autocast>(kBFloat16);
    loop.bits.add(loop.model(ones({6, 6})));
    if (i == kLoopSteps - 1) region.reset();
  });
}

TEST_P(CapturedStepChanges, SeesAutocastThatComesAndGoes) {
  expect_as_eager([&](Loop& loop, int i) {
    static std::unique_ptr<Autocast> region;
    (void)loop;
    if (i == 6) region = std::make_unique<Autocast>(kBFloat16);
    if (i == 11) region.reset();
  });
}

TEST_P(CapturedStepChanges, SeesStateThatIsLoaded) {
  StateDict saved;
  expect_as_eager([&](Loop& loop, int i) {
    if (i == 2) {
      saved = {};
      for (const auto& [name, tensor] : loop.optimizer.state_dict()) saved.add(name, tensor.clone());
    }
    if (i == 6) loop.optimizer.load_state_dict(saved), saved = {};
  });
}

TEST_P(CapturedStepChanges, SeesStateThatIsReset) {
  std::vector<Tensor> others;  // they take the memory of the old state
  expect_as_eager([&](Loop& loop, int i) {
    others.clear();
    if (i < 6) return;
    if (i == 6) loop.optimizer.reset_state();
    for (int k = 0; k < 20; ++k) others.push_back(full({64}, double(k), Device::cuda(0)));
    for (const Tensor& other : others) loop.bits.add(other);
    if (i == kLoopSteps - 1) others.clear();
  });
}

TEST_P(CapturedStepChanges, SeesModes) {
  expect_as_eager([](Loop& loop, int i) {
    if (i == 5) loop.model.eval();
    if (i == 10) loop.model.train();
  });
}

TEST_P(CapturedStepChanges, SeesSettings) {
  expect_as_eager([](Loop& loop, int i) {
    if (i == 6) loop.net().dropout.p = 0.1;
  });
}

TEST_P(CapturedStepChanges, SeesOptionsOfAnotherKernel) {
  expect_as_eager([](Loop& loop, int i) {
    if (i == 6) loop.optimizer.options().amsgrad = true;
  });
}

TEST_P(CapturedStepChanges, SeesWhatIsFrozen) {
  expect_as_eager([](Loop& loop, int i) {
    if (i == 5) loop.net().in.weight.requires_grad_(false);
    if (i == 10) loop.net().in.weight.requires_grad_(true);
  });
}

TEST_P(CapturedStepChanges, SeesHooks) {
  HookHandle hook;
  expect_as_eager([&](Loop& loop, int i) {
    if (i == 5) hook = register_hook(*loop.net().out.bias, [](const Tensor& g) { return g * 0.5; });
    if (i == 10) hook.remove();
  });
}

// With a hook, the parameter's earlier gradient is set aside for the backward, and the hook's result is not summed
// again.
TEST_P(CapturedStepChanges, LeavesWhatAHookMakesOfAGradient) {
  HookHandle hook;
  const auto prepare = [&](Loop& loop) {
    loop.clears = loop.steps = false;
    hook = register_hook(*loop.net().out.bias, [](const Tensor& g) { return g * 0.5; });
  };
  const auto adds = [](Loop& loop, int i) {
    if (i % 4 == 3) loop.optimizer.zero_grad(false);
  };
  const auto begins_anew = [](Loop& loop, int i) {
    if (i > 0) loop.optimizer.step();
    loop.optimizer.zero_grad();
  };
  expect_as_eager(adds, false, kLoopSteps, prepare);
  expect_as_eager(begins_anew, false, kLoopSteps, prepare);
}

TEST_P(CapturedStepChanges, SeesGradientsThatAreDropped) {
  expect_as_eager(
      [](Loop& loop, int i) {
        if (i == 6) loop.optimizer.zero_grad();
      },
      false, kLoopSteps, [](Loop& loop) { loop.clears = false; });
}

TEST_P(CapturedStepChanges, SeesGradientsSetByHand) {
  expect_as_eager(
      [](Loop& loop, int i) {
        if (i == 6) loop.net().out.bias->set_grad(full({3}, 2., Device::cuda(0)));
      },
      false, kLoopSteps, [](Loop& loop) { loop.clears = false; });
}

TEST_P(CapturedStepChanges, MayLeaveTheUpdateToTheHost) {
  expect_as_eager(
      [](Loop& loop, int i) {
        if (i > 0) loop.optimizer.step();
        loop.optimizer.zero_grad();
      },
      false, kLoopSteps, [](Loop& loop) { loop.clears = loop.steps = false; });
}

TEST_P(CapturedStepChanges, AccumulatesForTheHost) {
  expect_as_eager(
      [](Loop& loop, int i) {
        if (i % 4 != 3) return;
        loop.optimizer.step();
        loop.optimizer.zero_grad(false);
      },
      false, kLoopSteps, [](Loop& loop) { loop.clears = loop.steps = false; });
}

TEST_P(CapturedStepChanges, SeesOtherStreams) {
  expect_as_eager([](Loop& loop, int i) {
    static std::unique_ptr<StreamGuard> guard;
    (void)loop;
    const Device first = Device::cuda(0);
    if (i != 5 && i != 10) return;
    const cuda::Event before = current_stream(first).record();
    if (i == 5) guard = std::make_unique<StreamGuard>(Stream::from_pool(first));
    if (i == 10) guard.reset();
    current_stream(first).wait(before);
  });
}

// The final state is that of eager steps, the third of which throws where the captured one does.
TEST_P(CapturedStepChanges, ThrowsAsAnEagerStep) {
  const auto state_after = [](bool captured) {
    const TestDevices there(GetParam());
    GeneratorState random{.seed = 5};
    const GeneratorGuard guard(random);
    Loop loop(GetParam(), captured, false);
    int calls = 0;
    const auto function = [&](const Tensor& x, const Tensor& y) {
      const Tensor loss = loop.step(x, y);
      if (++calls == 3) throw std::runtime_error("late");
      return loss;
    };
    CapturedStep step(function);
    for (int i = 0; i < 10; ++i) {
      const Tensor x = randn({10, 6}), y = randn({10, 3});
      try {
        captured ? step(x, y) : function(x.to(Device::cuda(0)), y.to(Device::cuda(0)));
        EXPECT_NE(i, 2);
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(i, 2) << error.what();
      }
      loop.look();
    }
    EXPECT_EQ(step.is_captured(), captured);
    return loop.bits;
  };
  EXPECT_EQ(state_after(true), state_after(false));
}

// Forward changes an untrained parameter and a buffer; replica 0's values are copied to all replicas.
struct Counting : nn::Module<Counting> {
  nn::Linear linear{6, 3};
  nn::Parameter scale{full({3}, 1.)};
  nn::Buffer last{zeros({3}), nn::BufferSync::primary};

  Counting() { scale.requires_grad_(false); }
  auto members() { return nn::members("linear", linear, "scale", scale, "last", last); }
  Tensor forward(const Tensor& x) {
    const Tensor y = linear(x) * scale.clone();
    scale.mul_(0.9).add_(y.detach().mean(0) * 0.1);
    last.add_(y.detach().mean(0));
    return y + last.clone();
  }
};

TEST_P(CapturedStepChanges, LeavesWhatForwardChanges) {
  const auto state_after = [](bool captured, int& calls) {
    const TestDevices there(GetParam());
    GeneratorState random{.seed = 5};
    const GeneratorGuard guard(random);
    DataParallel<Counting> model(Counting(), {.device_ids = first_gpus(GetParam())});
    optim::AdamW optimizer(model.parameters(), {.lr = 0.05});
    const auto function = [&](const Tensor& x) {
      ++calls;
      optimizer.zero_grad();
      const Tensor loss = model(x).square().mean();
      loss.backward();
      optimizer.step();
      return loss.detach();
    };
    CapturedStep step(function);
    Bits bits;
    for (int i = 0; i < kLoopSteps; ++i) {
      if (i == 8) model.module().scale.fill_(0.5);
      if (i == 11) model.module().last.fill_(0.25);
      const Tensor x = randn({10, 6});
      bits.add(captured ? step(x) : function(x.to(Device::cuda(0))));
      bits.add(model.state_dict());
      for (const auto& [name, tensor] : model.module().state_dict()) bits.values.push_back(float(tensor.version()));
    }
    return bits;
  };
  int of_captured = 0, of_eager = 0;
  const Bits captured = state_after(true, of_captured);
  EXPECT_EQ(captured, state_after(false, of_eager));
  EXPECT_LE(of_captured, kLoopSteps - 4);
}

TEST(CapturedStepRefusals, NameABackwardOfAPassBefore) {
  const TestDevices there(1);
  Job job;
  Tensor loss = job.model(ones({8, 4}, Device::cuda(0))).square().mean();
  CapturedStep step([&] {
    job.optimizer->zero_grad();
    loss.backward({}, true);
    job.optimizer->step();
  });
  for (int i = 0; i < 2; ++i) {
    loss = job.model(ones({8, 4}, Device::cuda(0))).square().mean();
    step();
  }
  loss = job.model(ones({8, 4}, Device::cuda(0))).square().mean();
  const std::string error = thrown<InvalidArgument>([&] { step(); });
  EXPECT_NE(error.find("recorded before the step began"), std::string::npos) << error;
}

TEST(CapturedStepRefusals, NameWhatIsGone) {
  const TestDevices there(1);
  Job job;
  auto schedule = std::make_unique<optim::StepLR>(*job.optimizer, optim::StepLROptions{.step_size = 4});
  CapturedStep step([&](const Tensor& x) { job.step(x); });
  CapturedStep scheduled([&](const Tensor& x) {
    job.step(x);
    schedule->step();
  });
  const Tensor x = ones({8, 4}, Device::cuda(0));
  for (int i = 0; i < 4; ++i) step(x), scheduled(x);
  ASSERT_TRUE(step.is_captured() && scheduled.is_captured());
  schedule.reset();
  EXPECT_NE(
      thrown<InvalidArgument>([&] { scheduled(x); }).find("the schedule that the captured step uses was destroyed"),
      std::string::npos);
  job.optimizer.reset();
  EXPECT_NE(thrown<InvalidArgument>([&] { step(x); }).find("the optimizer that the captured step uses was destroyed"),
            std::string::npos);
}

TEST(CapturedStepRefusals, NameWhatWasMovedFrom) {
  const TestDevices there(1);
  CapturedStep step([](const Tensor& x) { return x + 1; });
  CapturedStep moved(std::move(step));
  EXPECT_FALSE(step.is_captured());
  EXPECT_NE(thrown<InvalidArgument>([&] { step(ones({1})); }).find("moved from"), std::string::npos);
  EXPECT_NE(thrown<InvalidArgument>([&] { step.reset(); }).find("moved from"), std::string::npos);
  moved(ones({1}));
}

// The input's gradient continues outside the step.
TEST(CapturedStepRefusals, LeaveInputsWithGradientsToTheHost) {
  const TestDevices there(1);
  Job job;
  Tensor scale = ones({4}, Device::cuda(0));
  scale.requires_grad_();
  CapturedStep step([&](const Tensor& x) { job.step(x); });
  for (int i = 0; i < 5; ++i) {
    scale.set_grad({});
    step(scale * full({8, 4}, 2., Device::cuda(0)));
    EXPECT_TRUE(scale.grad().defined());
  }
  EXPECT_FALSE(step.is_captured());
}

TEST(CapturedStepMemory, HasWhatItUsesThoughNobodyElseHoldsIt) {
  const TestDevices there(1);
  Tensor offset = full({64}, 2., Device::cuda(0)), sum = zeros({64}, Device::cuda(0));
  CapturedStep step([&](const Tensor& x) { return sum.add_(x + offset).clone(); });
  const Tensor x = ones({64}, Device::cuda(0));
  for (int i = 0; i < 4; ++i) step(x);
  ASSERT_TRUE(step.is_captured());
  offset = sum = Tensor();
  std::vector<Tensor> others;
  for (int i = 0; i < 100; ++i) others.push_back(zeros({64}, Device::cuda(0)));
  EXPECT_EQ(step(x)[0].item<float>(), 15);
  for (const Tensor& other : others) EXPECT_EQ(other.sum().item<float>(), 0);
}

// A failed collective aborts the NCCL communicator that the step was captured with.
TEST(CapturedStepFailures, OfACollectiveHaveTheStepCapturedAnew) {
  if (!are_simulated()) GTEST_SKIP() << "faults are injected into simulated devices";
  SimulatedDevices devices({.count = 2});
  Loop loop(2, true, false);
  int calls = 0;
  CapturedStep step([&](const Tensor& x, const Tensor& y) {
    ++calls;
    return loop.step(x, y);
  });
  const auto take = [&] { step(randn({10, 6}), randn({10, 3})).item<float>(); };
  for (int i = 0; i < 5; ++i) take();
  EXPECT_EQ(calls, 3);
  devices.fault().fail_collective({.device = 1, .nth = 1});
  thrown<CollectiveError>([&] { take(), loop.net().out.weight.to_vector<float>(); });
  EXPECT_EQ(calls, 3);
  take();
  EXPECT_EQ(calls, 4);  // not replayed
  for (int i = 0; i < 4; ++i) take();
  EXPECT_TRUE(step.is_captured());
  EXPECT_EQ(calls, 6);
}

TEST(CapturedStepMemory, IsTheCachesOnceMore) {
  if (!are_simulated()) GTEST_SKIP() << "the memory of simulated devices has a limit";
  SimulatedDevices devices({.count = 1, .memory_bytes = 64 << 20});
  const auto work = [](std::int64_t rows) {
    CapturedStep step([](const Tensor& x) { return (x + 1).square().sum(); });
    const Tensor x = ones({rows, 1 << 20}, Device::cuda(0));
    for (int i = 0; i < 4; ++i) step(x);
    EXPECT_TRUE(step.is_captured());
  };
  for (int i = 0; i < 4; ++i)
    for (const std::int64_t rows : {3, 2, 1}) work(rows);
}

// A step of a sharded model that throws tells nothing of what a whole step uses: whole steps come before a capture.
TEST(CapturedStepErrors, LeaveTheStepsAfterThemAlone) {
  for (const Shard shard : {Shard::none, Shard::gradients, Shard::parameters})
    for (const bool in_allocation : {false, true}) {
      SimulatedDevices devices({.count = 2});
      DataParallel model(nn::Linear(8, 4), {.shard = shard});
      optim::SGD optimizer(model.parameters(), {.lr = 0.1});
      CapturedStep step([&](const Tensor& x) {
        if (x.size(0) == 3) throw std::runtime_error("a bad batch");
        optimizer.zero_grad();
        const Tensor loss = mean(model(x));
        loss.backward();
        optimizer.step();
        return loss.detach();
      });
      int errors = 0;
      for (int i = 0; i < 8; ++i) {
        const bool fails = i == 2;
        const Tensor x = ones({fails && !in_allocation ? 3 : 6, 8}, {.device = Device::cuda(0)});
        if (fails && in_allocation) devices.fault().fail_allocation({.device = 1, .nth = 1});
        try {
          step(x);
        } catch (const std::exception& error) {
          EXPECT_EQ(i, 2) << error.what();
          ++errors;
          if (in_allocation) sum(model.module().weight).item<float>();
        }
      }
      EXPECT_EQ(errors, 1);
      EXPECT_TRUE(step.is_captured());
    }
}

TEST(CapturedStepErrors, NameWorkOfAnotherThread) {
  const SimulatedDevices devices({.count = 2});
  Tensor counter = zeros({1}, {.device = Device::cuda(1)}), weight = ones({4}, {.device = Device::cuda(0)});
  int calls = 0;
  std::string said;
  CapturedStep step([&](const Tensor& x) {
    if (++calls == 3)
      std::thread([&] {
        try {
          counter.add_(1);
        } catch (const InvalidArgument& error) {
          said = error.what();
        }
      }).join();
    weight.mul_(0.5);
    return sum(weight * x);
  });
  for (int i = 0; i < 8; ++i) step(ones({4}, {.device = Device::cuda(0)}));
  EXPECT_TRUE(step.is_captured());
  EXPECT_EQ(counter.item<float>(), 0);
  EXPECT_NE(said.find("another thread"), std::string::npos) << said;
}

}  // namespace
}  // namespace lockstep::train
