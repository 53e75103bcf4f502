// Arguments that have to agree between processes are compared before they are used: a difference is named, with the
// same error in each process, before anything has changed.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>
#include <lockstep/ops/layout.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/grad_scaler.h>
#include <lockstep/optim/sgd.h>

#include "parallel/mlp_job.h"
#include "support/ending_processes.h"
#include "support/repetitions.h"

namespace lockstep {
namespace {

using testing::message_of;

class Agreement : public ::testing::Test {
 protected:
  using Messages = std::vector<std::string>;

  // Expects the same InvalidArgument message in every process, for several timings.
  static void expect_refused(int processes, const std::string& message, const std::function<void(const World&)>& f,
                             int tries = testing::repetitions(20)) {
    for (int seed = 0; seed < tries; ++seed) {
      Messages got;
      for (const auto& failure : testing::in_ending_processes(processes, std::uint64_t(seed), f))
        got.push_back(message_of<InvalidArgument>(failure));
      ASSERT_EQ(got, Messages(std::size_t(processes), message)) << "seed " << seed;
    }
  }
  static bool is_second(const World& world) { return world.rank() == ProcessRank(1); }
  static DataParallelOptions on_own_device(const World& world) {
    return {.device_ids = {world.rank().value()}, .world = world};
  }

  SimulatedDevices devices_{{.count = 3}};
};

TEST_F(Agreement, NamesWhatOfAModelDiffers) {
  for (const int processes : {2, 3})
    expect_refused(
        processes,
        "[DataParallel] expected the same model in all processes, got parameter \"weight\" [3, 5] float32 in process 0 "
        "on simulated-host-0 and parameter \"weight\" [4, 5] float32 in process 1 on simulated-host-1",
        [](const World& world) { DataParallel model(nn::Linear(5, is_second(world) ? 4 : 3), on_own_device(world)); },
        testing::repetitions(100));
}

// Trains a model in each process with the optimizer from `make`; calls `between` between backward and step, in step
// `at`.
template <class Make>
class Trains {
 public:
  using Between = std::function<void(const World&, optim::Optimizer&, DataParallel<nn::Linear>&)>;
  explicit Trains(Make make, Between between = {}, int at = 0) : make_(make), between_(between), at_(at) {}

  void operator()(const World& world) const {
    DataParallel model(nn::Linear(5, 3), {.device_ids = {world.rank().value()}, .world = world});
    auto optimizer = make_(world, model.parameters());
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      mean(model(ones({4, 5}))).backward();
      if (between_ && step == at_) between_(world, optimizer, model);
      const std::vector<float> before = testing::floats(model.module().weight);
      try {
        optimizer.step();
      } catch (const InvalidArgument&) {
        EXPECT_EQ(testing::floats(model.module().weight), before);
        throw;
      }
    }
    model(ones({4, 5}));
  }

 private:
  Make make_;
  Between between_;
  int at_;
};

std::string differs(const std::string& who, const std::string& first, const std::string& second) {
  return who + ", got " + first + " in process 0 on simulated-host-0 and " + second +
         " in process 1 on simulated-host-1";
}

const std::string kOptimizers = "[optimizer] expected the same optimizer in all processes";
const std::string kCalls = "[DataParallel] expected the same use of a model in all processes since its last pass";

auto sgd(double lr, double other, double decay = 0, double other_decay = 0) {
  return [=](const World& world, std::vector<Tensor> parameters) {
    const bool is_other = world.rank() == ProcessRank(1);
    return optim::SGD(std::move(parameters),
                      {.lr = is_other ? other : lr, .weight_decay = is_other ? other_decay : decay});
  };
}

TEST_F(Agreement, NamesParametersThatOneProcessHasFrozen) {
  expect_refused(2, differs(kCalls, "nothing like it", "frozen parameters: bias"), [](const World& world) {
    DataParallel model(nn::Linear(5, 3), on_own_device(world));
    mean(model(ones({4, 5}))).backward();
    if (is_second(world)) model.module().bias->requires_grad_(false);
    mean(model(ones({4, 5}))).backward();
  });
}

// Compares the state at the pass: a difference that was corrected before it is accepted.
TEST_F(Agreement, GoesOnWhereFrozenParametersAreMended) {
  const auto failures = testing::in_ending_processes(2, 1, [](const World& world) {
    DataParallel model(nn::Linear(5, 3), on_own_device(world));
    if (is_second(world)) model.module().bias->requires_grad_(false);
    EXPECT_THROW(model(ones({4, 5})), InvalidArgument);
    model.module().bias->requires_grad_(false);
    mean(model(ones({4, 5}))).backward();
  });
  for (const std::exception_ptr& failure : failures) EXPECT_FALSE(failure) << message_of<Error>(failure);
}

TEST_F(Agreement, NamesTheRateOfAnOptimizerThatDiffers) {
  for (const int processes : {2, 3})
    expect_refused(processes, differs(kOptimizers, "SGD group 0: lr 0.1", "SGD group 0: lr 0.2"),
                   Trains(sgd(0.1, 0.2)));
}

TEST_F(Agreement, NamesTheWeightDecayThatDiffers) {
  expect_refused(2, differs(kOptimizers, "SGD group 0: weight_decay 0", "SGD group 0: weight_decay 0.01"),
                 Trains(sgd(0.1, 0.1, 0, 0.01)));
}

TEST_F(Agreement, NamesTheOptimizerThatDiffers) {
  expect_refused(2, differs(kOptimizers, "Adam of 1 groups", "AdamW of 1 groups"), [](const World& world) {
    const auto with = [&](auto own) { Trains{own}(world); };
    if (is_second(world))
      with([](const World&, std::vector<Tensor> all) { return optim::AdamW(std::move(all)); });
    else
      with([](const World&, std::vector<Tensor> all) { return optim::Adam(std::move(all)); });
  });
}

TEST_F(Agreement, NamesTheParameterThatOneOptimizerLacks) {
  expect_refused(
      2, differs(kOptimizers, "SGD group 0: parameter 1 of its model, [3] float32, after 0 steps", "nothing like it"),
      Trains([](const World& world, std::vector<Tensor> parameters) {
        if (is_second(world)) parameters.pop_back();
        return optim::SGD(std::move(parameters), {.lr = 0.1});
      }));
}

TEST_F(Agreement, NamesTheClippingThatDiffers) {
  const auto clips = [](double norm, double other) {
    return [=](const World& world, optim::Optimizer&, auto& model) {
      optim::clip_grad_norm_(model.parameters(), is_second(world) ? other : norm);
    };
  };
  const std::string one = "clip_grad_norm_() of 2 parameters to 0.5, norm_type 2",
                    other = "clip_grad_norm_() of 2 parameters to 1, norm_type 2";
  expect_refused(2, differs(kOptimizers, one, other), Trains(sgd(0.1, 0.1), clips(0.5, 1)));
  expect_refused(2, differs(kCalls, one, other), Trains(sgd(0.1, 0.1), clips(0.5, 1), 1));
  const auto clips_in_one = [](const World& world, optim::Optimizer&, auto& model) {
    if (is_second(world)) optim::clip_grad_value_(model.parameters(), 0.5);
  };
  expect_refused(2, differs(kCalls, "nothing like it", "clip_grad_value_() of 2 parameters to 0.5"),
                 Trains(sgd(0.1, 0.1), clips_in_one, 1));
}

TEST_F(Agreement, NamesTheScaleThatDiffers) {
  const auto unscales = [](const World& world, optim::Optimizer& optimizer, auto&) {
    optim::GradScaler scaler({.init_scale = is_second(world) ? 4. : 2.});
    scaler.unscale_(optimizer);
  };
  const std::string one = "GradScaler.unscale_() by 2", other = "GradScaler.unscale_() by 4";
  expect_refused(2, differs(kOptimizers, one, other), Trains(sgd(0.1, 0.1), unscales));
  expect_refused(2, differs(kCalls, one, other), Trains(sgd(0.1, 0.1), unscales, 1));
}

// A later change is found in the next pass.
TEST_F(Agreement, NamesTheRateThatOneProcessChanges) {
  const auto changes = [](const World& world, optim::Optimizer& optimizer, auto&) {
    if (is_second(world)) optimizer.set_lr(0.3);
  };
  expect_refused(2, differs(kCalls, "SGD group 0: lr 0.1", "SGD group 0: lr 0.3"), Trains(sgd(0.1, 0.1), changes, 1));
}

TEST_F(Agreement, NamesTheStateThatOneProcessResets) {
  const auto resets = [](const World& world, optim::Optimizer& optimizer, auto&) {
    if (is_second(world)) optimizer.reset_state();
  };
  expect_refused(
      2, differs(kCalls, "nothing like it", "SGD group 0: parameter 0 of its model, [3, 5] float32, after 0 steps"),
      Trains(sgd(0.1, 0.1), resets, 1));
}

TEST_F(Agreement, NamesTheModeThatDiffers) {
  expect_refused(2, differs(kCalls, "forward() in training mode", "forward() in evaluation mode"),
                 Trains(sgd(0.1, 0.1), [](const World& world, optim::Optimizer&, auto& model) {
                   if (is_second(world)) model.eval();
                 }));
  expect_refused(2, differs(kCalls, "forward() in training mode", "forward() in training mode under no_sync()"),
                 [](const World& world) {
                   DataParallel model(nn::Linear(5, 3), on_own_device(world));
                   std::optional<DataParallel<nn::Linear>::NoSync> no_sync;
                   if (is_second(world)) no_sync.emplace(model);
                   model(ones({4, 5}));
                 });
}

// The job goes on after a difference whose error the program catches.
TEST_F(Agreement, GoesOnAfterADifference) {
  for (const auto& failure : testing::in_processes(2, [](const World& world) {
         EXPECT_THROW(Trains(sgd(0.1, 0.2))(world), InvalidArgument);
         EXPECT_THROW(
             Trains(
                 sgd(0.1, 0.1),
                 [](const World& own, optim::Optimizer& optimizer, auto&) { optimizer.set_lr(own.is_first() ? 1 : 2); },
                 1)(world),
             InvalidArgument);
         Trains(sgd(0.1, 0.1))(world);
       }))
    EXPECT_FALSE(failure) << message_of<Error>(failure);
}

TEST_F(Agreement, NamesWhoDoesSomethingElse) {
  const auto failures =
      testing::in_processes(2, [](const World& world) { world.barrier(world.is_first() ? "one thing" : "another"); });
  for (const auto& failure : failures) {
    const std::string message = message_of<CollectiveError>(failure);
    EXPECT_TRUE(message.find("called \"another\" while process 0 on simulated-host-0 called \"one thing\"") !=
                    std::string::npos ||
                message.find("called \"one thing\" while process 1 on simulated-host-1 called \"another\"") !=
                    std::string::npos)
        << message;
  }
}

// Four weights of one size, each in its own bucket: differing layouts would sum the wrong buckets together. Forward
// uses the weights in the order of their names, so that backward reaches `d` first, while the first layout begins with
// `a`. Nothing uses the last one.
struct Chain : nn::Module<Chain> {
  nn::Linear d{4, 4, {.bias = false}}, c{4, 4, {.bias = false}}, b{4, 4, {.bias = false}}, a{4, 4, {.bias = false}},
      unused{4, 4, {.bias = false}};
  auto members() { return nn::members("d", d, "c", c, "b", b, "a", a, "unused", unused); }
  Tensor forward(const Tensor& x) { return d(c(b(a(x)))); }
};

class Layout : public Agreement {
 protected:
  using Gradients = std::vector<std::vector<float>>;

  // Whole numbers, so that sums are exact in any order.
  static void fill(nn::ModuleBase& module) {
    const NoGrad guard;
    int next = 0;
    for (Tensor& parameter : module.parameters())
      parameter.copy_(remainder(arange(double(parameter.numel())) * (2 + next++), 3).reshape(parameter.sizes()) + 1);
  }
  static Tensor rows(int process) {
    return remainder(arange(8., {.dtype = kFloat32}) * (process + 1), 5).reshape({2, 4});
  }
  static Gradients gradients(nn::ModuleBase& module) {
    Gradients all;
    for (const Tensor& parameter : module.parameters())
      all.push_back(parameter.grad().defined() ? parameter.grad().to_vector<float>() : std::vector<float>());
    return all;
  }
  static Gradients of_one_process() {
    Chain model;
    fill(model);
    (sum(model(rows(0))) + sum(model(rows(1)))).backward();
    return gradients(model);
  }

  // Runs three backwards, with `prepare` before the second one. Returns the exception of each process.
  static std::vector<std::exception_ptr> run(
      const std::function<void(const World&, DataParallel<Chain>&)>& prepare,
      const std::function<void(const World&, DataParallel<Chain>&)>& afterwards = {}) {
    const Gradients right = of_one_process();
    return testing::in_ending_processes(2, 0, [&](const World& world) {
      DataParallelOptions options = on_own_device(world);
      options.buckets = {.first_bytes = 1, .bytes = 1};
      options.loss = ProcessLoss::sum;
      DataParallel model(Chain(), options);
      fill(model.module());
      for (int step = 0; step < 3; ++step) {
        model.zero_grad();
        const Tensor loss = sum(model(rows(world.rank().value())));
        if (step == 1) prepare(world, model);
        loss.backward();
        if (step == 1 && afterwards) afterwards(world, model);
        EXPECT_EQ(gradients(model), right) << "step " << step << " of process " << world.rank().value();
      }
    });
  }
};

TEST_F(Layout, ChangesInNoProcessIfOneHasNoMemory) {
  int succeeded = 0;
  for (std::uint64_t nth = 1; nth <= 8; ++nth) {
    SCOPED_TRACE(nth);
    const auto failures = run([&](const World& world, DataParallel<Chain>&) {
      if (is_second(world)) devices_.fault().fail_allocation({.device = 1, .nth = nth});
    });
    devices_.fault().clear();
    const bool failed = failures[0] || failures[1];
    EXPECT_EQ(failures[1] ? message_of<OutOfMemory>(failures[1]).find("another") : std::string::npos,
              std::string::npos);
    succeeded += !failed;
  }
  EXPECT_GT(succeeded, 0);
}

TEST_F(Layout, ChangesInNoProcessIfAParameterOfOneWasMoved) {
  for (const auto& failure : run(
           [](const World&world, DataParallel<Chain>&model) {
             if (is_second(world)) model.module().unused.to("cpu");
           },
           [](const World&world, DataParallel<Chain>&model) {
             if (is_second(world)) model.module().unused.to(model.device());
           }))
    EXPECT_FALSE(failure) << message_of<Error>(failure);
}

// A parameter that only one process has used under no_sync(): the others contribute zeros, and take part in the sum.
TEST_F(Agreement, SumsWhatOnlyOneProcessHasAccumulated) {
  struct Either : nn::Module<Either> {
    nn::Linear a{5, 3}, b{5, 3};
    auto members() { return nn::members("a", a, "b", b); }
    Tensor forward(const Tensor& x, bool first) { return first ? a(x) : b(x); }
  };
  for (const auto& failure : testing::in_ending_processes(2, 1, [](const World& world) {
         DataParallelOptions options = on_own_device(world);
         options.loss = ProcessLoss::sum;
         DataParallel model(Either(), options);
         {
           const auto guard = model.no_sync();
           sum(model(ones({4, 5}), world.is_first())).backward();
         }
         for (const Tensor& parameter : {Tensor(*model.module().a.bias), Tensor(*model.module().b.bias)}) {
           ASSERT_TRUE(parameter.grad().defined());
           EXPECT_EQ(testing::floats(parameter.grad()), std::vector<float>(3, 4));
         }
       }))
    EXPECT_FALSE(failure) << message_of<Error>(failure);
}

}  // namespace
}  // namespace lockstep
