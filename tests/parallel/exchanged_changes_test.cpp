// Changes of parameters by hand that the devices of several processes divide between them (Shard::parameters).
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/layers.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/collectives.h>
#include <lockstep/runtime/communicator.h>

#include "parallel/sharded_in_processes.h"
#include "support/must_end.h"

namespace lockstep::sharded {
namespace {

using namespace std::chrono_literals;
using testing::in_processes;
using Numbers = std::vector<std::vector<double>>;

// Layers that lie in several buckets, and a parameter of no elements.
struct Stack : nn::Module<Stack> {
  std::vector<nn::Linear> layers;
  nn::Parameter none{zeros({0})};
  Stack() {
    manual_seed(5);
    for (int i = 0; i < 12; ++i) layers.emplace_back(16, 16);
  }
  auto members() { return nn::members("layers", layers, "none", none); }
  Tensor forward(Tensor x) {
    for (nn::Linear& layer : layers) x = layer(x);
    return x;
  }
};

using StackJob = std::function<Numbers(DataParallel<Stack>& model)>;

Numbers run_stack(int processes, int each, Shard shard, const StackJob& job) {
  const SimulatedDevices devices({.count = processes * each, .max_delay_us = 10});
  std::vector<Numbers> found;
  found.resize(std::size_t(processes));
  testing::must_end({[&] {
    expect_no_failure(in_processes(processes, [&](const World& world) {
      DataParallel model(Stack(), options_in(world, each, shard));
      found[std::size_t(world.rank().value())] = job(model);
    }));
  }});
  for (const Numbers& seen : found) EXPECT_EQ(seen, found[0]);
  return found[0];
}

void expect_same_in_processes(const StackJob& job) {
  const Numbers expected = run_stack(1, 4, Shard::none, job);
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(run_stack(2, 1, Shard::parameters, job), expected);
  EXPECT_EQ(run_stack(2, 2, Shard::parameters, job), expected);
}

TEST(ExchangedChanges, AreSeenIn16BitsBeforeAllProcessesMeet) {
  expect_same_in_processes([](DataParallel<Stack>& model) {
    const NoGrad guard;
    Numbers seen;
    const Tensor x = full({3, 16}, 0.25, {.device = model.device()});
    for (int i = 0; i < 2; ++i) {
      for (const Tensor& parameter : model.parameters()) Tensor(parameter).mul_(1.5);
      const Autocast autocast(kBFloat16);
      seen.push_back(values(model.module()(x)));
      seen.push_back(values(matmul(model.module().layers[0].weight, model.module().layers[9].weight)));
    }
    return seen;
  });
}

TEST(ExchangedChanges, OfNoElementsAreNone) {
  for (const int each : {1, 2})
    run_stack(2, each, Shard::parameters, [](DataParallel<Stack>& model) {
      optim::SGD optimizer(model.parameters(), {.lr = 0.1});
      for (int i = 0; i < 3; ++i) {
        optimizer.zero_grad();
        sum(model(ones({2, 16}, {.device = model.device()}))).backward();
        optimizer.step();
        if (model.world().is_first())  // so that only this process has the unit, and counts the change
          for (const nn::Linear& layer : model.module().layers) values(layer.weight);
        const NoGrad guard;
        Tensor(model.module().none).mul_(0.5);
      }
      return values(model.parameters());
    });
}

// Process 0 changes a weight on a stream that waits for process 1, and then uses others; process 1 first reads weights
// whose parts process 0 has.
TEST(ExchangedChanges, MayWaitForAnotherProcess) {
  testing::must_end({[] {
    const SimulatedDevices devices({.count = 2});
    expect_no_failure(in_processes(2, [](const World& world) {
      DataParallel model(Stack(), options_in(world, 1, Shard::parameters));
      Communicator communicator({model.device()}, world);
      const NoGrad guard;
      Stack& net = model.module();
      const auto read_all = [&] {
        double all = 0;
        for (nn::Linear& layer : net.layers) all += sum(layer.weight * layer.weight).item<double>();
        return all;
      };
      const Tensor value = full({16, 16}, 0.5, {.device = model.device()});
      if (!world.is_first()) {
        std::this_thread::sleep_for(100ms);
        EXPECT_GT(read_all(), 0);
      }
      collective::all_reduce(communicator, std::span(&value, 1));
      net.layers[0].weight.copy_(value);
      for (const std::size_t other : {4u, 8u, 11u}) net.layers[other].weight + 1.;  // take the buffer of the first
      EXPECT_GT(read_all(), 256);
      EXPECT_EQ(values(net.layers[0].weight), std::vector<double>(256, 1));
      model(value);
    }));
  }});
}

// A module that leaves its model for another one sends its weights there.
TEST(ExchangedChanges, OfAModuleThatMovesToAnotherModelEnd) {
  testing::must_end({[] {
    const SimulatedDevices devices({.count = 4, .max_delay_us = 200});
    expect_no_failure(in_processes(2, [](const World& world) {
      for (int i = 0; i < 3; ++i) {
        std::optional<DataParallel<Stack>> model(std::in_place, Stack(), options_in(world, 2, Shard::parameters));
        const Numbers before = values(model->parameters());
        Stack net = std::move(model->module());
        model.reset();
        DataParallel<Stack> second(std::move(net), options_in(world, 2, Shard::none));
        EXPECT_EQ(values(second.parameters()), before);
      }
    }));
  }});
}

// The sums of one model's gradients wait for the other process, which reads the weights of another model first.
TEST(ExchangedChanges, OfManyModelsShareNoStreamWithTheirSums) {
  testing::must_end({[] {
    const SimulatedDevices devices({.count = 2});
    expect_no_failure(in_processes(2, [](const World& world) {
      std::list<DataParallel<Stack>> models;
      for (int i = 0; i < 4; ++i) models.emplace_back(Stack(), options_in(world, 1, Shard::parameters));
      std::vector<Tensor> losses;
      for (DataParallel<Stack>& model : models) losses.push_back(sum(model(ones({2, 16}, {.device = model.device()}))));
      if (!world.is_first()) {
        std::this_thread::sleep_for(100ms);
        for (DataParallel<Stack>& model : models)
          for (nn::Linear& layer : model.module().layers) values(layer.weight);
      }
      for (const Tensor& loss : losses) loss.backward();
    }));
  }});
}

}  // namespace
}  // namespace lockstep::sharded
