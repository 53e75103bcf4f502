// Parameters that several processes divide between them, on devices with little memory: the model trains, or an error
// says at once that there is too little. Processes do not wait for each other in vain.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/nn/layers.h>
#include <lockstep/ops/activation.h>
#include <lockstep/optim/sgd.h>

#include "parallel/sharded_in_processes.h"

namespace lockstep::sharded {
namespace {

using testing::in_processes;
using Values = std::vector<std::vector<double>>;

// Backward uses the layers in the order of members(): so the units are laid out anew in the second step. Each process
// begins with another layer, so that they need units in different orders.
struct Turning : nn::Module<Turning> {
  static constexpr std::int64_t kWidth = 160;
  std::vector<nn::Linear> layers;
  int first = 0;
  Turning() {
    for (int i = 0; i < 5; ++i) layers.emplace_back(kWidth, kWidth);
  }
  auto members() { return nn::members("layers", layers); }
  Tensor forward(Tensor x, bool turned) {
    const std::size_t count = layers.size();
    for (std::size_t i = count; i-- > 0;) {
      const std::size_t at = turned ? (i + std::size_t(first)) % count : i;
      x = gelu(layers[at](x)) + x;
    }
    return x;
  }
};

struct Outcome {
  std::optional<Values> trained;
  std::string error;
};

Outcome train_with(std::size_t bytes, Shard shard, bool turned) {
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
      sum(model(rows, turned) * 0.01).backward();
      optimizer.step();
    }
    const Values seen = values(model.parameters());
    if (world.is_first()) outcome.trained = seen;
  });
  for (const std::exception_ptr& failure : failures)
    if (failure && outcome.error.empty()) outcome.error = testing::message_of<Error>(failure);
  return outcome;
}

void expect_no_vain_waits(bool turned) {
  const Outcome expected = train_with(std::size_t(1) << 30, Shard::none, turned);
  ASSERT_TRUE(expected.trained) << expected.error;
  const std::size_t parameters = 5 * Turning::kWidth * Turning::kWidth * sizeof(float);
  int in_a_row = 0;
  for (std::size_t bytes = parameters / 2; in_a_row < 3; bytes += parameters / 8) {
    ASSERT_LT(bytes, 16 * parameters);
    const Outcome got = train_with(bytes, Shard::parameters, turned);
    in_a_row = got.error.empty() ? in_a_row + 1 : 0;
    EXPECT_TRUE(!got.error.empty() || got.trained == expected.trained) << bytes;
    EXPECT_EQ(got.error.find("did not reach"), std::string::npos) << bytes << ": " << got.error;
    EXPECT_EQ(got.error.find("ms for the parameters"), std::string::npos) << bytes << ": " << got.error;
  }
}

TEST(ShortMemory, EndsATrainingAtOnceThoughUnitsAreLaidOutAnew) { expect_no_vain_waits(false); }
TEST(ShortMemory, EndsATrainingAtOnceThoughProcessesUseUnitsInOtherOrders) { expect_no_vain_waits(true); }

}  // namespace
}  // namespace lockstep::sharded
