// Parameters that the devices of several processes divide between them (Shard::parameters): a process gets the parts of
// the others when it needs them, whatever these are doing.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/activation.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/memory_plan.h>
#include <lockstep/runtime/memory.h>

#include "core/text.h"
#include "parallel/sharded_in_processes.h"
#include "support/must_end.h"

namespace lockstep::sharded {
namespace {

using namespace std::chrono_literals;
using testing::in_processes;
using Numbers = std::vector<std::vector<double>>;

struct Grid {
  int processes, devices;
};

using Job = std::function<Numbers(DataParallel<Net>& model, optim::Optimizer& optimizer)>;

// What the job returns, which must be equal in all processes.
Numbers run(const Grid& grid, Shard shard, const Job& job) {
  batches();
  const SimulatedDevices devices({.count = grid.processes * grid.devices, .max_delay_us = 10});
  std::vector<Numbers> found(std::size_t(grid.processes));
  expect_no_failure(in_processes(grid.processes, [&](const World& world) {
    DataParallel model(Net(), options_in(world, grid.devices, shard));
    optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
    found[std::size_t(world.rank().value())] = job(model, optimizer);
  }));
  for (const Numbers& each : found) EXPECT_EQ(each, found[0]);
  return found[0];
}

void expect_same_at_all_levels(const Job& job) {
  const Numbers expected = run({1, 4}, Shard::none, job);
  EXPECT_FALSE(expected.empty());
  for (const Grid& grid : {Grid{2, 2}, Grid{4, 1}})
    for (const Shard shard : {Shard::hybrid, Shard::parameters}) {
      SCOPED_TRACE(text(shard, ", ", grid.processes, " x ", grid.devices));
      EXPECT_EQ(run(grid, shard, job), expected);
    }
}

TEST(ExchangedParameters, TakeTheSameChangesByHandFromAllProcesses) {
  expect_same_at_all_levels([](DataParallel<Net>& model, optim::Optimizer& optimizer) {
    Numbers seen;
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      loss_of_process(model, step).backward();
      {
        const NoGrad guard;
        Net& net = model.module();
        if (step == 1) net.first.weight.mul_(0.5);  // before the step
        if (step == 3) net.last.bias->copy_(ones({1}));
      }
      optimizer.step();
      const NoGrad guard;
      if (step == 2) model.module().first.weight.select(0, 3).fill_(0.25);  // before the next pass
      if (step == 4)
        for (const Tensor& parameter : model.parameters()) Tensor(parameter).add_(0.01);
      seen.push_back(values(model.module().first.weight));
    }
    return seen;
  });
}

TEST(ExchangedParameters, LoadWholeStateDicts) {
  expect_same_at_all_levels([](DataParallel<Net>& model, optim::Optimizer& optimizer) {
    train_in_process(model, optimizer, 0, 2);
    const StateDict parameters = copy_of(model.state_dict()), state = copy_of(optimizer.state_dict());
    train_in_process(model, optimizer, 2, 4);
    model.load_state_dict(parameters);
    optimizer.load_state_dict(state);
    Numbers seen = values(model.state_dict());
    train_in_process(model, optimizer, 2, 5);
    for (const auto& each : values(model.parameters())) seen.push_back(each);
    return seen;
  });
}

TEST(ExchangedParameters, GoOnWithAccumulationClippingAndEvaluation) {
  expect_same_at_all_levels([](DataParallel<Net>& model, optim::Optimizer& optimizer) {
    for (int at = 0; at < 4; ++at) {
      optimizer.zero_grad();
      {
        std::optional<DataParallel<Net>::NoSync> no_sync;
        if (at % 2 == 0) no_sync.emplace(model);
        loss_of_process(model, at).backward();
      }
      loss_of_process(model, at + 1).backward();
      optim::clip_grad_norm_(model.parameters(), 0.5);
      optimizer.step();
      const NoGrad guard;
      model.eval();
      loss_of_process(model, at);
      model.train();
    }
    return values(model.parameters());
  });
}

// Bits must not depend on which process lags. (The delays of the devices differ between the runs.)
TEST(ExchangedParameters, HaveTheSameBitsWhateverProcessLags) {
  std::optional<Numbers> first;
  for (int late = 0; late < 3; ++late) {
    const Numbers here = run({3, 1}, Shard::parameters, [&](DataParallel<Net>& model, optim::Optimizer& optimizer) {
      for (int at = 0; at < 4; ++at) {
        if (model.world().rank().value() == late) std::this_thread::sleep_for(20ms);
        train_in_process(model, optimizer, at, at + 1);
      }
      return values(model.parameters());
    });
    if (!first) first = here;
    EXPECT_EQ(here, *first);
  }
}

// The other processes are in other places of the program meanwhile.
TEST(ExchangedParameters, AreReadByOneProcessAlone) {
  for (const Grid& grid : {Grid{2, 2}, Grid{4, 1}}) {
    const SimulatedDevices devices({.count = 4});
    batches();
    Numbers all, alone;
    expect_no_failure(in_processes(grid.processes, [&](const World& world) {
      DataParallel model(Net(), options_in(world, grid.devices, Shard::parameters));
      optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
      for (int at = 0; at < 3; ++at) {
        train_in_process(model, optimizer, at, at + 1);
        if (world.rank().value() == at % grid.processes) alone = values(model.state_dict());
      }
      const Numbers together = values(model.state_dict());
      if (world.is_first()) all = together;
      if (world.rank().value() == grid.processes - 1) {  // the others wait in their destructors
        std::this_thread::sleep_for(50ms);
        alone = values(copy(model.module()).parameters());
      }
    }));
    EXPECT_EQ(alone, all);
  }
}

// A process that changes parameters first sees its changes, and the others see the former values until they make them.
TEST(ExchangedParameters, AreChangedForEachProcessWhenItChangesThem) {
  const SimulatedDevices devices({.count = 2});
  expect_no_failure(in_processes(2, [](const World& world) {
    DataParallel model(Net(), options_in(world, 1, Shard::parameters));
    const Tensor weight = model.module().first.weight;
    const NoGrad guard;
    const std::vector<double> before = values(weight);
    std::vector<double> doubled;
    for (const double value : before) doubled.push_back(2 * value);
    if (world.is_first()) Tensor(weight).mul_(2);
    EXPECT_EQ(values(weight), world.is_first() ? doubled : before);
    world.barrier();
    EXPECT_EQ(values(weight), world.is_first() ? doubled : before);
    for (const Tensor& other : model.parameters()) values(other);  // takes all buffers
    EXPECT_EQ(values(weight), world.is_first() ? doubled : before);
    if (!world.is_first()) Tensor(weight).mul_(2);
    EXPECT_EQ(values(weight), doubled);
    loss_of_process(model, 0);
    EXPECT_EQ(values(weight), doubled);
  }));
}

TEST(ExchangedParameters, RefuseDifferentChangesByHand) {
  for (const bool by_all : {false, true}) {
    const SimulatedDevices devices({.count = 2});
    batches();
    const std::vector<std::string> said = testing::thrown_in_processes<InvalidArgument>(2, [&](const World& world) {
      DataParallel model(Net(), options_in(world, 1, Shard::parameters));
      {
        const NoGrad guard;
        if (by_all || !world.is_first()) model.module().first.weight.fill_(world.is_first() ? 1 : 2);
      }
      loss_of_process(model, 0);
    });
    for (const std::string& message : said)
      EXPECT_NE(message.find("expected the same changes of parameters (Shard::parameters) by hand in all processes"),
                std::string::npos)
          << message;
  }
}

struct Layers : nn::Module<Layers> {
  std::vector<nn::Linear> layers;
  Layers() {
    for (int i = 0; i < 6; ++i) layers.emplace_back(128, 128);
  }
  auto members() { return nn::members("layers", layers); }
  Tensor forward(Tensor x) {
    for (nn::Linear& layer : layers) x = relu(layer(x));
    return x;
  }
};

void expect_memory_as_planned(const Grid& grid, bool autocast) {
  const auto count = std::size_t(grid.processes * grid.devices);
  const SimulatedDevices devices({.count = int(count)});
  expect_no_failure(in_processes(grid.processes, [&](const World& world) {
    manual_seed(1);
    DataParallelOptions how = options_in(world, grid.devices, Shard::parameters);
    how.buckets = {.first_bytes = 66'000, .bytes = 66'000};  // a layer each
    const MemoryPlanOptions planned = {.devices = grid.devices,
                                       .processes = grid.processes,
                                       .state_tensors = 0,
                                       .buckets = how.buckets,
                                       .autocast = autocast};
    Layers layers;
    const MemoryPlan plan = memory_plan(layers, planned);
    DataParallel model(std::move(layers), how);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    for (int step = 0; step < 3; ++step) {
      for (const Device& device : model.devices()) {
        synchronize(device);
        if (step == 2) reset_peak_memory(device);
      }
      optimizer.zero_grad();
      std::optional<Autocast> region;
      if (autocast) region.emplace(kBFloat16);
      const Tensor loss = sum(model(ones({std::int64_t(grid.devices), 128}, {.device = model.device()})));
      region.reset();
      loss.backward();
      optimizer.step();
    }
    const auto expected = double(plan[Shard::parameters].total());
    for (const Device& device : model.devices()) {
      synchronize(device);
      EXPECT_NEAR(double(memory_stats(device).peak_in_use), expected, 0.1 * expected)  // activations and rounding
          << grid.processes << " x " << grid.devices << (autocast ? " autocast " : " ") << plan;
    }
  }));
}

TEST(ExchangedParameters, TakeTheMemoryThatThePlanSays) {
  for (const Grid& grid : {Grid{2, 1}, Grid{2, 2}, Grid{4, 1}})
    for (const bool autocast : {false, true}) expect_memory_as_planned(grid, autocast);
}

// Each process reads all parameters at once, and none waits for its device: they must not throw the parameters of
// others out of the slots before these were copied.
TEST(ExchangedParameters, AreReadByAllAtOnceInFewExchanges) {
  const SimulatedDevices devices({.count = 6});
  expect_no_failure(in_processes(3, [&](const World& world) {
    DataParallelOptions how = options_in(world, 2, Shard::parameters);
    how.buckets = {.first_bytes = 256, .bytes = 256};
    nn::Sequential net;
    for (int i = 0; i < 24; ++i) net.push_back(nn::Linear(16, 16));
    DataParallel model(std::move(net), how);
    const NoGrad guard;
    model(ones(Shape{2, 16}, {.device = model.device()}));
    const int first = model.device().index();
    for (int i = 0; i < 5; ++i) {
      world.barrier();
      const std::uint64_t before = devices.counts(first).collectives;
      for (const Tensor& parameter : model.parameters()) sum(parameter);
      synchronize(model.device());
      world.barrier();
      EXPECT_LT(devices.counts(first).collectives - before, 10 * model.parameters().size());
    }
  }));
}

// In each process the second device's thread is slower than the first one's.
struct Slow : nn::Module<Slow> {
  std::vector<nn::Linear> layers;
  Slow() {
    for (int i = 0; i < 12; ++i) layers.emplace_back(16, 16);
  }
  auto members() { return nn::members("layers", layers); }
  Tensor forward(Tensor x) {
    for (nn::Linear& layer : layers) {
      if (x.device().index() % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      x = layer(x);
    }
    return x;
  }
};

// Both devices use what one exchange has brought.
TEST(ExchangedParameters, StayInTheirSlotsForASlowDevice) {
  const SimulatedDevices devices({.count = 4});
  expect_no_failure(in_processes(2, [&](const World& world) {
    DataParallelOptions how = options_in(world, 2, Shard::parameters);
    how.buckets = {.first_bytes = 1088, .bytes = 1088};  // a layer each
    DataParallel model(Slow(), how);
    const NoGrad guard;
    const int first = model.device().index();
    const Tensor x = ones(Shape{2, 16}, {.device = model.device()});
    model(x);
    for (int i = 0; i < 3; ++i) {
      synchronize(model.device());
      world.barrier();
      const std::uint64_t before = devices.counts(first).collectives;
      world.barrier();
      model(x);
      synchronize(model.device());
      world.barrier();
      EXPECT_LE(devices.counts(first).collectives - before, 18U);  // 12 layers, and some that were asked for again
    }
  }));
}

TEST(ExchangedParameters, AreUsedIn16Bits) {
  const auto trained = [](const Grid& grid, Shard shard) {
    return run(grid, shard, [](DataParallel<Net>& model, optim::Optimizer& optimizer) {
      for (int at = 0; at < 4; ++at) {
        optimizer.zero_grad();
        Tensor all;
        {
          const Autocast autocast(kBFloat16);
          all = loss_of_process(model, at);
        }
        all.backward();
        optimizer.step();
        if (at == 2) {
          const NoGrad guard;
          model.module().first.weight.mul_(0.5);
          const Autocast autocast(kBFloat16);
          loss_of_process(model, at);
        }
      }
      return values(model.parameters());
    });
  };
  const Numbers expected = trained({1, 4}, Shard::none);
  for (const Grid& grid : {Grid{2, 2}, Grid{4, 1}})
    EXPECT_EQ(trained(grid, Shard::parameters), expected) << grid.processes;
}

TEST(ExchangedParameters, RefuseToBeWholeDuringAnUpdate) {
  struct Reading final : optim::Optimizer {
    explicit Reading(std::vector<Tensor> parameters) : Optimizer("Reading"), read(parameters[0]) {
      add_parameters(std::move(parameters));
    }
    std::vector<optim::Option> option_list(std::size_t) override { return {}; }
    void check_options(std::size_t) const override {}
    std::vector<optim::Slot> slots(std::size_t) const override { return {}; }
    void update(std::size_t, const optim::Batch&) const override { values(read); }
    const Tensor read;
  };
  const SimulatedDevices devices({.count = 2});
  const std::vector<std::string> said = testing::thrown_in_processes<InvalidArgument>(2, [&](const World& world) {
    DataParallel model(nn::Linear(4, 4), options_in(world, 1, Shard::parameters));
    Reading optimizer(model.parameters());
    sum(model(ones({2, 4}))).backward();
    optimizer.step();
  });
  // (The first process to refuse makes the other one fail.)
  EXPECT_TRUE(std::ranges::any_of(
      said,
      [](const std::string& message) { return message.find("while an optimizer changes them") != std::string::npos; }))
      << said[0] << said[1];
}

struct Eight : nn::Module<Eight> {
  std::vector<nn::Linear> layers;
  Eight() {
    for (int i = 0; i < 8; ++i) layers.emplace_back(8, 8);
  }
  auto members() { return nn::members("layers", layers); }
  Tensor forward(Tensor x) {
    for (nn::Linear& layer : layers) x = relu(layer(x));
    return x;
  }
};

// Processes come to the same exchanges at other times: after an evaluation, with two losses, or with changes by hand
// between the steps.
TEST(ExchangedParameters, ComeInAnyLoop) {
  for (const char* loop : {"evaluation", "two losses", "decay", "no_sync"}) {
    SCOPED_TRACE(loop);
    const std::string_view is = loop;
    const auto trained = [&](int processes) {
      const SimulatedDevices devices({.count = 2});
      std::vector<Numbers> found(static_cast<std::size_t>(processes));
      expect_no_failure(in_processes(processes, [&](const World& world) {
        manual_seed(1);
        DataParallelOptions how = options_in(world, 2 / processes, processes > 1 ? Shard::parameters : Shard::none);
        how.buckets = {.first_bytes = 300, .bytes = 300};
        DataParallel model(Eight(), how);
        optim::SGD optimizer(model.parameters(), {.lr = 0.05});
        const Tensor x = ones({2 / processes, 8}, {.device = model.device()});
        for (int step = 0; step < 4; ++step) {
          if (is == "evaluation") {
            const NoGrad guard;
            model(x);
          }
          optimizer.zero_grad();
          if (is == "no_sync") {
            const DataParallel<Eight>::NoSync guard(model);
            sum(model(x)).backward();
          }
          Tensor all = sum(model(x));
          if (is == "two losses") all = all + sum(model(x * 0.5));
          all.backward();
          optimizer.step();
          const NoGrad guard;
          if (is == "decay")
            for (const Tensor& parameter : model.parameters()) Tensor(parameter).mul_(0.99);
        }
        found[std::size_t(world.rank().value())] = values(model.parameters());
      }));
      return found[0];
    };
    EXPECT_EQ(trained(2), trained(1));
  }
}

TEST(ExchangedParameters, EndInTimeWhenTheOthersHaveGone) {
  testing::must_end({[] {
    const SimulatedDevices devices({.count = 2});
    const auto failures = in_processes(
        2,
        [](const World& world) {
          DataParallel model(nn::Linear(4, 4), options_in(world, 1, Shard::parameters));
          if (world.rank().value() == 1) throw std::runtime_error("a fault of the program");
          std::this_thread::sleep_for(500ms);
          sum(model(ones({2, 4})));
        },
        200ms);
    EXPECT_FALSE(testing::message_of<CollectiveError>(failures[0]).empty());
  }});
}

// Otherwise the parts of one process would lack a step.
TEST(ExchangedParameters, FailInAllProcessesIfAStepFailsInOne) {
  for (const Shard shard : {Shard::none, Shard::gradients, Shard::parameters}) {
    SimulatedDevices devices({.count = 2});
    const auto failures = in_processes(
        2,
        [&](const World& world) {
          DataParallel model(nn::Linear(64, 64), options_in(world, 1, shard));
          optim::SGD optimizer(model.parameters(), {.lr = 1, .momentum = 0.9});
          sum(model(ones({2, 64}))).backward();
          world.barrier();
          if (world.is_first()) devices.fault().fail_allocation({.device = 0, .nth = 1, .count = 500});
          try {
            optimizer.step();
          } catch (const OutOfMemory&) {
            devices.fault().clear();
          }
          for (int i = 0; i < 2; ++i) sum(model(ones({2, 64}))).backward();
        },
        2s);
    for (const auto& failure : failures)
      EXPECT_NE(testing::message_of<CollectiveError>(failure).find("a step of an optimizer failed in process 0"),
                std::string::npos)
          << shard << ": " << testing::message_of<CollectiveError>(failure);
  }
}

TEST(ExchangedParameters, EndInTimeWhenAProcessFails) {
  testing::must_end({[] {
    batches();
    for (int fails_at = 0; fails_at < 4; ++fails_at) {
      const SimulatedDevices devices({.count = 3});
      const auto failures = in_processes(
          3,
          [&](const World& world) {
            DataParallel model(Net(), options_in(world, 1, Shard::parameters));
            optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
            const bool fails = world.rank().value() == 1;
            train_in_process(model, optimizer, 0, 2);
            if (fails && fails_at == 0) throw std::runtime_error("a fault of the program");
            const Tensor all = loss_of_process(model, 2);
            if (fails && fails_at == 1) throw std::runtime_error("a fault of the program");
            all.backward();
            if (fails && fails_at == 2) throw std::runtime_error("a fault of the program");
            optimizer.step();
            if (fails && fails_at == 3) throw std::runtime_error("a fault of the program");
            train_in_process(model, optimizer, 3, 5);
          },
          1s);
      EXPECT_NE(testing::message_of<std::runtime_error>(failures[1]).find("a fault of the program"), std::string::npos);
      for (const int other : {0, 2})
        EXPECT_NE(testing::message_of<CollectiveError>(failures[std::size_t(other)]).find("process 1"),
                  std::string::npos)
            << fails_at << ": " << testing::message_of<CollectiveError>(failures[std::size_t(other)]);
    }
  }});
}

}  // namespace
}  // namespace lockstep::sharded
