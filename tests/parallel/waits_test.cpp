// Every wait and every event of a forward pass is needed: without any one of them, the checker finds a race.
#include <gtest/gtest.h>

#include <lockstep/ops/linalg.h>
#include <lockstep/optim/sgd.h>

#include <functional>
#include <memory>
#include <tuple>

#include "parallel/mlp_job.h"
#include "support/replicas.h"

namespace lockstep {
namespace {

using testing::Mlp;

struct Outcome {
  std::vector<OperationCounts> before, after;
  bool race = false;
};

// Runs `work` on `count` simulated devices, with `inject` called just before it.
template <class Prepare, class Work>
Outcome run(int count, const std::function<void(FaultInjector&)>& inject, Prepare&& prepare, Work&& work) {
  Outcome result;
  SimulatedDevices devices({.count = count});
  manual_seed(1);
  auto prepared = prepare();
  for (int d = 0; d < count; ++d) synchronize(Device::cuda(d));
  for (int d = 0; d < count; ++d) result.before.push_back(devices.counts(d));
  inject(devices.fault());
  try {
    work(prepared);
  } catch (const RaceError&) {
    result.race = true;
  }
  for (int d = 0; d < count; ++d) {
    try {
      synchronize(Device::cuda(d));
    } catch (const RaceError&) {  // found when memory was freed
      result.race = true;
    }
  }
  devices.fault().clear();
  for (int d = 0; d < count; ++d) result.after.push_back(devices.counts(d));
  return result;
}

// A forward pass in the steady state, whose output is used, and a second one, which reuses memory that the first freed.
Outcome forward(int count, const std::function<void(FaultInjector&)>& inject) {
  struct Prepared {
    DataParallel<Mlp> model;
    Tensor input;
  };
  return run(
      count, inject,
      [] {
        Prepared prepared{DataParallel(Mlp()), randn({10, 5}, {.device = "cuda:0"})};
        prepared.model(prepared.input);
        return prepared;
      },
      [](Prepared& prepared) {
        for (int i = 0; i < 2; ++i) {
          Tensor output = prepared.model(prepared.input);
          output = output * 2.0;
          for (const Device& device : prepared.model.devices()) synchronize(device);
        }
      });
}

// A parameter on cuda:0 changes, is copied to the replica on cuda:1, and is used there; then it changes again.
Outcome update(int count, const std::function<void(FaultInjector&)>& inject) {
  struct Prepared {
    nn::Linear primary, replica;
    Tensor input;
    ReplicaSync sync;
  };
  return run(
      count, inject,
      [] {
        nn::Linear primary(5, 2, {.bias = false, .tensor = {.device = "cuda:0"}});
        Prepared prepared{copy(primary), detail::copy_on(primary, "cuda:1"), randn({4, 5}, {.device = "cuda:1"}), {}};
        return prepared;
      },
      [](Prepared& prepared) {
        const NoGrad guard;
        nn::ModuleBase* const replicas[] = {&prepared.replica};
        prepared.sync.reset(prepared.primary, replicas);
        prepared.replica(prepared.input);
        prepared.primary.weight.mul_(2);
        prepared.sync.update(prepared.primary);
        prepared.replica(prepared.input);
        prepared.primary.weight.mul_(2);
      });
}

// Backward of a forward pass that ran on other streams than the caller's: gradients cross streams at both ends.
Outcome backward(int count, const std::function<void(FaultInjector&)>& inject) {
  struct Prepared {
    Tensor weight, input, seed, loss;
  };
  return run(
      count, inject,
      [] {
        Prepared prepared{randn({5, 2}, {.device = "cuda:0", .requires_grad = true}),
                          randn({4, 5}, {.device = "cuda:0"}),
                          empty({}, {.device = "cuda:0"}),
                          {}};
        const Stream side = Stream::from_pool("cuda:0");
        side.wait(current_stream("cuda:0").record());
        const StreamGuard guard(side);
        prepared.loss = sum(mm(prepared.input, prepared.weight));
        return prepared;
      },
      [](Prepared& prepared) {
        prepared.seed.fill_(1);
        prepared.loss.backward(prepared.seed);
        prepared.weight.grad().mul_(2);
      });
}

// Gradients of one bucket are summed over the devices, and used.
Outcome reduction(int count, const std::function<void(FaultInjector&)>& inject) {
  struct Prepared {
    DataParallel<nn::Linear> model;
    std::vector<Tensor> losses;
  };
  return run(
      count, inject,
      [count] {
        Prepared prepared{DataParallel(nn::Linear(5, 2, {.bias = false})), {}};
        const Tensor output = prepared.model(randn({2 * count, 5}, {.device = "cuda:0"}));
        prepared.losses.push_back(sum(output));
        return prepared;
      },
      [](Prepared& prepared) {
        prepared.losses[0].backward();
        const NoGrad guard;
        for (const Tensor& parameter : prepared.model.parameters()) {
          parameter.grad().mul_(2);
          for (const Tensor& replica : testing::other_replicas(parameter)) replica.grad().mul_(2);
        }
      });
}

// Parameters with sharded gradients and state: their shards are summed, updated, all-gathered, and used.
Outcome sharded_step(int count, const std::function<void(FaultInjector&)>& inject) {
  struct Prepared {
    DataParallel<nn::Linear> model;
    std::unique_ptr<optim::SGD> optimizer;
    std::vector<Tensor> losses;
  };
  return run(
      count, inject,
      [count] {
        DataParallel model(nn::Linear(5, 256, {.bias = false}), {.shard = Shard::optimizer_state});
        auto optimizer = std::make_unique<optim::SGD>(model.parameters(), optim::SGDOptions{.lr = 0.1});
        const Tensor loss = sum(model(randn({2 * count, 5}, {.device = "cuda:0"})));
        return Prepared{std::move(model), std::move(optimizer), {loss}};
      },
      [](Prepared& prepared) {
        prepared.losses[0].backward();
        prepared.optimizer->step();
        const NoGrad guard;
        for (const Tensor& parameter : prepared.model.parameters()) {
          Tensor(parameter).mul_(2);
          for (Tensor replica : testing::other_replicas(parameter)) replica.mul_(2);
        }
      });
}

using Scenario = Outcome (*)(int, const std::function<void(FaultInjector&)>&);

class Waits : public ::testing::TestWithParam<std::tuple<Scenario, int>> {};

TEST_P(Waits, NoneMayBeDropped) {
  const auto [scenario, count] = GetParam();
  const Outcome whole = scenario(count, [](FaultInjector&) {});
  ASSERT_FALSE(whole.race);
  std::uint64_t tried = 0;
  for (int d = 0; d < count; ++d) {
    const std::uint64_t waits = whole.after[std::size_t(d)].waits - whole.before[std::size_t(d)].waits;
    for (std::uint64_t n = 1; n <= waits; ++n, ++tried)
      EXPECT_TRUE(scenario(count, [&](FaultInjector& fault) { fault.drop_wait({.device = d, .nth = n}); }).race)
          << "wait " << n << " of " << waits << " on cuda:" << d;
  }
  EXPECT_GT(tried, 0u);
}

TEST_P(Waits, NoEventMayBeLeftUnrecorded) {
  const auto [scenario, count] = GetParam();
  const Outcome whole = scenario(count, [](FaultInjector&) {});
  ASSERT_FALSE(whole.race);
  std::uint64_t tried = 0;
  for (int d = 0; d < count; ++d) {
    const std::uint64_t events = whole.after[std::size_t(d)].events - whole.before[std::size_t(d)].events;
    for (std::uint64_t n = 1; n <= events; ++n, ++tried)
      EXPECT_TRUE(scenario(count, [&](FaultInjector& fault) { fault.drop_record({.device = d, .nth = n}); }).race)
          << "event " << n << " of " << events << " on cuda:" << d;
  }
  EXPECT_GT(tried, 0u);
}

const auto kByDevices = [](const auto& test) { return std::to_string(std::get<1>(test.param)) + "Devices"; };

INSTANTIATE_TEST_SUITE_P(Forward, Waits, ::testing::Combine(::testing::Values(forward), ::testing::Values(2, 3, 5)),
                         kByDevices);
INSTANTIATE_TEST_SUITE_P(Backward, Waits, ::testing::Combine(::testing::Values(backward), ::testing::Values(1)),
                         kByDevices);
INSTANTIATE_TEST_SUITE_P(Reduction, Waits, ::testing::Combine(::testing::Values(reduction), ::testing::Values(2, 3, 5)),
                         kByDevices);
INSTANTIATE_TEST_SUITE_P(ShardedStep, Waits,
                         ::testing::Combine(::testing::Values(sharded_step), ::testing::Values(2, 3, 5)), kByDevices);
INSTANTIATE_TEST_SUITE_P(Update, Waits, ::testing::Combine(::testing::Values(update), ::testing::Values(2)),
                         kByDevices);

}  // namespace
}  // namespace lockstep
