// Optimizer state sharded over the devices of several processes: training gives the result of one process with all
// devices.
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/grad_scaler.h>
#include <lockstep/optim/sgd.h>

#include "core/text.h"
#include "optim/cases.h"
#include "parallel/sharded_in_processes.h"

namespace lockstep::sharded_processes {
namespace {

using namespace std::chrono_literals;
using sharded::batches;
using sharded::expect_no_failure;
using sharded::gradients;
using sharded::loss_of_process;
using sharded::Net;
using sharded::values;
using testing::in_processes;
using Clock = std::chrono::steady_clock;
using Numbers = std::vector<std::vector<double>>;

struct Grid {
  int processes, devices;
};
constexpr Grid kGrids[] = {{1, 4}, {2, 2}, {4, 1}};

DataParallelOptions options_of(const World& world, int each, Shard shard = Shard::optimizer_state) {
  return sharded::options_in(world, each, shard);
}

// Accumulates two backwards per step, the first with or without a sum.
void accumulate_and_step(DataParallel<Net>& model, optim::Optimizer& optimizer, int from, int to) {
  for (int at = from; at < to; ++at) {
    optimizer.zero_grad();
    {
      std::optional<DataParallel<Net>::NoSync> no_sync;
      if (at % 2 == 0) no_sync.emplace(model);
      loss_of_process(model, at).backward();
    }
    loss_of_process(model, at + 1).backward();
    optim::clip_grad_norm_(model.parameters(), 0.5);
    optimizer.step();
  }
}

void step(DataParallel<Net>& model, optim::Optimizer& optimizer, int from, int to) {
  sharded::train_in_process(model, optimizer, from, to);
}

using Train = decltype(step);

// The result of `job`, which must be equal in every process.
template <class F>
Numbers same_in_all(const Grid& grid, F job) {
  const SimulatedDevices devices({.count = grid.processes * grid.devices});
  std::vector<Numbers> found(std::size_t(grid.processes));
  expect_no_failure(
      in_processes(grid.processes, [&](const World& world) { found[std::size_t(world.rank().value())] = job(world); }));
  for (const Numbers& each : found) EXPECT_EQ(each, found[0]);
  return found[0];
}

Numbers joined(std::initializer_list<Numbers> parts) {
  Numbers all;
  for (const Numbers& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(ShardedProcesses, EndWithWhatOneProcessEndsWithByEveryOptimizer) {
  batches();
  for (const testing::OptimizerCase& which : testing::optimizer_cases()) {
    SCOPED_TRACE(which.name);
    Numbers one;
    for (const Grid& grid : kGrids) {
      const Numbers here = same_in_all(grid, [&](const World& world) {
        DataParallel model(Net(), options_of(world, grid.devices));
        const auto optimizer = which.make(model.parameters());
        accumulate_and_step(model, *optimizer, 0, 5);
        loss_of_process(model, 0).backward();
        return joined({values(model.parameters()), values(optimizer->state_dict()), gradients(model.parameters())});
      });
      if (one.empty()) one = here;
      EXPECT_EQ(here, one) << grid.processes << " x " << grid.devices;
    }
  }
}

TEST(ShardedProcesses, HaveTheSameBitsWithEachLevelInEachGrid) {
  batches();
  Numbers first;
  for (const Shard shard : {Shard::none, Shard::optimizer_state, Shard::gradients, Shard::hybrid, Shard::parameters})
    for (const Grid& grid : {Grid{1, 8}, Grid{2, 4}, Grid{4, 2}, Grid{8, 1}}) {
      SCOPED_TRACE(text(shard, ", ", grid.processes, " x ", grid.devices));
      const Numbers here = same_in_all(grid, [&](const World& world) {
        DataParallel model(Net(), options_of(world, grid.devices, shard));
        optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
        step(model, optimizer, 0, 5);
        return joined({values(model.parameters()), values(optimizer.state_dict())});
      });
      if (first.empty()) first = here;
      EXPECT_EQ(here, first);
    }
}

struct Saved {
  StateDict parameters, state;
};

Saved trained(const Grid& before, Train& train) {
  Saved saved;
  same_in_all(before, [&](const World& world) {
    DataParallel model(Net(), options_of(world, before.devices));
    optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
    train(model, optimizer, 0, 4);
    const StateDict gathered = optimizer.state_dict();  // called by all processes
    if (world.is_first()) {
      for (const auto& [key, value] : model.state_dict()) saved.parameters.add(key, value.to(Device()).clone());
      for (const auto& [key, value] : gathered) saved.state.add(key, value.to(Device()).clone());
    }
    return Numbers();
  });
  return saved;
}

// Continues from the parameters and state that another grid saved.
Numbers resumed(const Saved& saved, const Grid& after, Train& train) {
  return same_in_all(after, [&](const World& world) {
    DataParallel model(Net(), options_of(world, after.devices));
    optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
    model.load_state_dict(saved.parameters);
    optimizer.load_state_dict(saved.state);
    train(model, optimizer, 4, 7);
    return joined({values(model.parameters()), values(optimizer.state_dict())});
  });
}

TEST(ShardedProcesses, GoOnFromTheStateOfAnotherNumberOfProcesses) {
  batches();
  const Numbers whole = same_in_all({1, 4}, [&](const World& world) {
    DataParallel model(Net(), options_of(world, 4));
    optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
    step(model, optimizer, 0, 7);
    return joined({values(model.parameters()), values(optimizer.state_dict())});
  });
  // Accumulation and clipping add in the order of shards, which a new model's first buckets define again.
  const Numbers accumulated = resumed(trained({1, 4}, accumulate_and_step), {1, 4}, accumulate_and_step);
  for (const Grid& before : kGrids) {
    const Saved stepped = trained(before, step), summed = trained(before, accumulate_and_step);
    for (const Grid& after : kGrids) {
      SCOPED_TRACE(::testing::Message() << before.processes << " x " << before.devices << " then " << after.processes
                                        << " x " << after.devices);
      EXPECT_TRUE(resumed(stepped, after, step) == whole);
      EXPECT_TRUE(resumed(summed, after, accumulate_and_step) == accumulated);
    }
  }
}

// The state outlives the model that sharded it, and is gathered for the model's successor.
TEST(ShardedProcesses, BringStateTogetherWhenTheModelGoes) {
  batches();
  Numbers one;
  for (const Grid& grid : kGrids) {
    const Numbers here = same_in_all(grid, [&](const World& world) {
      std::optional<DataParallel<Net>> model(std::in_place, Net(), options_of(world, grid.devices));
      std::vector<Tensor> parameters = model->parameters();
      optim::AdamW optimizer(parameters, {.lr = 0.01});
      accumulate_and_step(*model, optimizer, 0, 5);
      model.reset();
      const Numbers before = values(optimizer.state_dict());
      for (Tensor& parameter : parameters) parameter.set_grad(full_like(parameter.detach(), 0.1));
      optimizer.step();
      return joined({before, values(parameters), values(optimizer.state_dict())});
    });
    if (one.empty()) one = here;
    EXPECT_EQ(here, one) << grid.processes << " x " << grid.devices;
  }
}

struct Wide : nn::Module<Wide> {
  nn::Linear fc{255, 301};
  auto members() { return nn::members("fc", fc); }
  Tensor forward(const Tensor& x) { return sum(fc(x)); }
};

TEST(ShardedProcesses, KeepThePartOfOneDeviceOnEach) {
  const std::size_t all = 2 * (255 * 301 + 301) * sizeof(float), rounding = 2 * 512;
  for (const Grid& grid : {Grid{2, 1}, Grid{2, 2}, Grid{4, 1}}) {
    const auto count = std::size_t(grid.processes * grid.devices);
    const SimulatedDevices devices({.count = int(count)});
    std::vector<std::size_t> bytes(count);
    expect_no_failure(in_processes(grid.processes, [&](const World& world) {
      DataParallelOptions how = options_of(world, grid.devices);
      how.shard = Shard::optimizer_state;
      DataParallel model(Wide(), how);
      optim::Adam optimizer(model.parameters(), {});
      const auto in_use = [&] {
        std::vector<std::size_t> now;
        for (const Device& device : model.devices()) {
          synchronize(device);
          now.push_back(memory_stats(device).in_use);
        }
        return now;
      };
      sum(model(ones({8, 255}))).backward();
      const std::vector<std::size_t> before = in_use();
      optimizer.step();
      const std::vector<std::size_t> after = in_use();
      for (std::size_t d = 0; d < after.size(); ++d)
        bytes[std::size_t(model.devices()[d].index())] = after[d] - before[d];
    }));
    for (const std::size_t own : bytes) {
      EXPECT_LE(own, all / count + rounding) << grid.processes << " x " << grid.devices;
      EXPECT_GE(own, all / count / 2) << "none would be too little";
    }
  }
}

// The gradient equals `x`, so that a test can choose one element of it, in one process's shard.
struct Product : nn::Module<Product> {
  nn::Parameter weight{ones({500})};
  auto members() { return nn::members("weight", weight); }
  Tensor forward(const Tensor& x) { return sum(x * weight); }
};

TEST(ShardedProcesses, SkipAStepWhereTheShardOfOneIsNotFinite) {
  const SimulatedDevices devices({.count = 2});
  for (const std::int64_t element : {0, 499})
    expect_no_failure(in_processes(2, [&](const World& world) {
      DataParallel model(Product(), options_of(world, 1));
      optim::SGD optimizer(model.parameters(), {.lr = 0.1});
      optim::GradScaler scaler({.init_scale = 2});
      for (const bool is_finite : {true, false, true}) {
        optimizer.zero_grad();
        Tensor x = ones({1, 500});
        if (!is_finite) x.narrow(1, element, 1).fill_(1e300);
        scaler.scale(sum(model(x))).backward();
        EXPECT_EQ(scaler.step(optimizer), is_finite) << element << " in process " << world.rank().value();
        scaler.update();
      }
      EXPECT_EQ(scaler.get_scale(), 1);
    }));
}

// The failed process's sharded gradients are dropped without waiting, and the other process gets an error.
TEST(ShardedProcesses, EndWhenOneFailsBetweenBackwardAndStep) {
  const SimulatedDevices devices({.count = 4});
  std::optional<Clock::time_point> thrown_at;
  Clock::duration took = {};
  const auto thrown = in_processes(
      2,
      [&](const World& world) {
        try {
          DataParallel model(Net(), options_of(world, 2));
          optim::Adam optimizer(model.parameters(), {});
          accumulate_and_step(model, optimizer, 0, 3);
          loss_of_process(model, 3).backward();
          if (!world.is_first()) {
            synchronize(model.device());
            thrown_at = Clock::now();
            throw std::runtime_error("a fault of the program");
          }
          optimizer.step();
          optimizer.state_dict();
        } catch (const std::runtime_error&) {
          if (!world.is_first() && thrown_at) took = Clock::now() - *thrown_at;
          throw;
        }
      },
      2s);
  EXPECT_LT(took, 1s);
  EXPECT_NE(testing::message_of<std::runtime_error>(thrown[1]).find("a fault of the program"), std::string::npos);
  const std::string heard = testing::message_of<CollectiveError>(thrown[0]);
  EXPECT_NE(heard.find("process 1 on simulated-host-1"), std::string::npos) << heard;
}

}  // namespace
}  // namespace lockstep::sharded_processes
