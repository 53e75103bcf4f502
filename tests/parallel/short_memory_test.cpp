// Parameters that several processes divide between them, on devices with little memory: the model trains, or an error
// says at once that there is too little. Processes do not wait for each other in vain.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/autograd/autocast.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/activation.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/collectives.h>

#include "parallel/mlp_job.h"
#include "parallel/sharded_in_processes.h"
#include "support/repetitions.h"
#include "tensor/tensor_impl.h"

namespace lockstep::sharded {
namespace {

using testing::in_processes;
using Values = std::vector<std::vector<double>>;

// Backward uses the layers in the order of members(): so the units are laid out anew in the second step. Each process
// begins with another layer, so that they need units in different orders.
struct Turning : nn::Module<Turning> {
  static constexpr std::int64_t kWidth = 160;
  std::vector<nn::Linear> layers;
  std::vector<nn::LayerNorm> norms;  // which autocast leaves in float32
  int first = 0;
  Turning() {
    for (int i = 0; i < 5; ++i) {
      layers.emplace_back(kWidth, kWidth);
      norms.emplace_back(Shape{kWidth});
    }
  }
  auto members() { return nn::members("layers", layers, "norms", norms); }
  Tensor forward(Tensor x, bool turned) {
    const std::size_t count = layers.size();
    for (std::size_t i = count; i-- > 0;) {
      const std::size_t at = turned ? (i + std::size_t(first)) % count : i;
      x = norms[at](gelu(layers[at](x)) + x);
    }
    return x;
  }
};

struct Outcome {
  std::optional<Values> trained;
  std::string error;
};

Outcome train_with(std::size_t bytes, Shard shard, bool turned, bool autocast) {
  constexpr int kProcesses = 4;
  const SimulatedDevices devices({.count = kProcesses, .memory_bytes = bytes});
  Outcome outcome;
  const auto failures = in_processes(kProcesses, [&](const World& world) {
    manual_seed(5);
    const Tensor inputs = randn({kProcesses, Turning::kWidth});
    DataParallelOptions with = options_in(world, 1, shard);
    with.buckets = {.first_bytes = 1 << 17, .bytes = 1 << 17};
    Turning net;
    net.first = world.rank().value();
    DataParallel model(std::move(net), with);
    optim::SGD optimizer(model.parameters(), {.lr = 0.01, .momentum = 0.9});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      const Tensor rows = inputs.narrow(0, world.rank().value(), 1).to(model.device());
      std::optional<Autocast> region;
      if (autocast) region.emplace(kBFloat16);
      const Tensor loss = sum(model(rows, turned) * 0.01);
      region.reset();
      loss.backward();
      optimizer.step();
    }
    const Values seen = values(model.parameters());
    if (world.is_first()) outcome.trained = seen;
  });
  for (const std::exception_ptr& failure : failures)
    if (failure && outcome.error.empty()) outcome.error = testing::message_of<Error>(failure);
  return outcome;
}

void expect_no_vain_waits(bool turned, bool autocast) {
  const Outcome expected = train_with(std::size_t(1) << 30, Shard::none, turned, autocast);
  ASSERT_TRUE(expected.trained) << expected.error;
  const std::size_t parameters = 5 * Turning::kWidth * Turning::kWidth * sizeof(float);
  int in_a_row = 0;
  for (std::size_t bytes = parameters / 2; in_a_row < 3; bytes += parameters / 8 * testing::kStride) {
    ASSERT_LT(bytes, 16 * parameters);
    const Outcome got = train_with(bytes, Shard::parameters, turned, autocast);
    in_a_row = got.error.empty() ? in_a_row + 1 : 0;
    EXPECT_TRUE(!got.error.empty() || got.trained == expected.trained) << bytes;
    EXPECT_EQ(got.error.find("did not reach"), std::string::npos) << bytes << ": " << got.error;
    EXPECT_EQ(got.error.find("ms for the parameters"), std::string::npos) << bytes << ": " << got.error;
  }
}

TEST(ShortMemory, EndsATrainingAtOnceThoughUnitsAreLaidOutAnew) { expect_no_vain_waits(false, false); }
TEST(ShortMemory, EndsATrainingAtOnceThoughProcessesUseUnitsInOtherOrders) { expect_no_vain_waits(true, false); }
TEST(ShortMemory, EndsATrainingIn16BitsAtOnce) { expect_no_vain_waits(true, true); }

// With these sizes and 16 MiB each array has a segment of its own: the allocator keeps nothing for the streams of
// exchanges.
constexpr std::int64_t kWide = 600;

std::vector<Tensor> all_memory(const Device& device) {
  std::vector<Tensor> all;
  for (std::int64_t elements = 1 << 22; elements > 64; elements /= 2) try {
      for (;;) all.push_back(empty({elements}, {.device = device}));
    } catch (const OutOfMemory&) {
    }
  return all;
}

// An operation that needs two units gets memory for one of them only: its thread does not keep that unit.
TEST(ShortMemory, LeavesNothingOfAnOperationThatFailed) {
  const SimulatedDevices devices({.count = 2, .memory_bytes = 16 << 20});
  DataParallelOptions with = options(Shard::parameters);
  with.buckets = {.first_bytes = 1, .bytes = 1};  // a parameter each
  std::optional<DataParallel<nn::Linear>> model(std::in_place, nn::Linear(kWide, kWide), with);
  std::optional<Tensor> for_one_unit = empty({kWide * kWide}, {.device = "cuda:0"});
  std::vector<Tensor> rest = all_memory("cuda:0");
  for_one_unit.reset();
  std::promise<void> has_failed, may_end;
  std::thread operation([&] {
    model->module().weight.impl()->data();
    EXPECT_THROW(model->module().bias->impl()->data(), OutOfMemory);
    has_failed.set_value();
    may_end.get_future().wait();
  });
  has_failed.get_future().wait();
  rest.clear();
  model.reset();
  EXPECT_EQ(testing::memory_in_use(2), (std::vector<std::size_t>{0, 0}));
  may_end.set_value();
  operation.join();
}

// After a step in 16 bits parameters that are read come one by one. The second process has no memory for them.
TEST(ShortMemory, IsEnoughToSendSingleParametersToOthers) {
  const SimulatedDevices devices({.count = 2, .memory_bytes = 16 << 20});
  expect_no_failure(in_processes(2, [](const World& world) {
    manual_seed(5);
    nn::Linear net(kWide, kWide);
    const auto weights = net.weight.to_vector<float>();
    DataParallel model(std::move(net), options_in(world, 1, Shard::parameters));
    optim::SGD optimizer(model.parameters(), {.lr = 0.0});
    {
      const Autocast region(kBFloat16);
      sum(model(ones({1, kWide}, {.device = model.device()}))).backward();
    }
    optimizer.step();
    std::vector<Tensor> all;
    if (!world.is_first()) all = all_memory(model.device());
    world.barrier();
    if (world.is_first()) {
      EXPECT_EQ(model.module().weight.to_vector<float>(), weights);
    }
    world.barrier();
  }));
}

// The first process's device waits for the second process, which first reads all parameters. Before that, the device
// copies out of slots as far as it may.
TEST(ShortMemory, LeavesASlotForWhatOthersNeed) {
  struct Four : nn::Module<Four> {
    std::vector<nn::Linear> all;
    auto members() { return nn::members("all", all); }
    Tensor forward(Tensor x) {
      for (nn::Linear& layer : all) x = layer(x);
      return x;
    }
  };
  const SimulatedDevices devices({.count = 2, .memory_bytes = 16 << 20});
  expect_no_failure(in_processes(2, [](const World& world) {
    manual_seed(5);
    Four net;
    for (int i = 0; i < 4; ++i) net.all.emplace_back(kWide, kWide);
    DataParallelOptions with = options_in(world, 1, Shard::parameters);
    with.buckets = {.first_bytes = 1 << 20, .bytes = 1 << 20};  // a layer each
    DataParallel model(std::move(net), with);
    Communicator communicator({model.device()}, world);
    const NoGrad guard;
    const Tensor x = ones({1, kWide}, {.device = model.device()}), gate = ones({1}, {.device = model.device()});
    model(x);
    std::optional<Tensor> for_outputs = empty({8 * kWide}, {.device = model.device()});
    const std::vector<Tensor> rest = all_memory(model.device());
    for_outputs.reset();
    if (world.is_first()) {
      collective::all_reduce(communicator, std::array{gate});
      model.module()(x);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      for (const nn::Linear& layer : model.module().all) EXPECT_NE(layer.weight.to_vector<float>()[0], 0);
      collective::all_reduce(communicator, std::array{gate});
    }
    synchronize(model.device());
  }));
}

}  // namespace
}  // namespace lockstep::sharded
