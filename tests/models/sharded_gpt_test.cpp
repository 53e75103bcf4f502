// A GPT that does not fit on a device: its parameters, gradients and AdamW's state are four times the device's memory.
#include <gtest/gtest.h>

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/trace.h>

#include "models/gpt.h"
#include "support/in_processes.h"
#include "support/repetitions.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLength = 8;
const GptOptions kLarge = {.vocabulary = 64, .length = kLength, .width = 256, .heads = 4, .layers = 6};
const GptOptions kSmall = {.vocabulary = 64, .length = kLength, .width = 128, .heads = 4, .layers = 4};

// The sum over the rows of this process.
Tensor loss_of(DataParallel<Gpt>& model, const Tensor& tokens, std::optional<DType> autocast) {
  std::optional<Autocast> region;
  if (autocast) region.emplace(*autocast);
  const auto [first, count] = model.share().rows(tokens.size(0));
  const Tensor rows = tokens.narrow(0, first, count).to(model.device());
  const Tensor logits = model(rows.slice(1, 0, kLength));
  return nn::functional::cross_entropy(logits.flatten(0, 1), rows.slice(1, 1, kLength + 1).flatten(),
                                       {.reduction = Reduction::sum}) *
         (1.0 / double(tokens.size(0) * kLength));
}

struct How {
  std::size_t memory_bytes = std::size_t(1) << 30;  // of each device
  int devices = 8, processes = 1;
  std::optional<DType> autocast = {};
  GptOptions model = kLarge;
};

std::vector<std::vector<float>> trained(Shard shard, const How& how) {
  const SimulatedDevices devices({.count = how.devices, .memory_bytes = how.memory_bytes});
  const int each = how.devices / how.processes;
  std::vector<std::vector<std::vector<float>>> found(std::size_t(how.processes));
  const auto failures = testing::in_processes(how.processes, [&](const World& world) {
    manual_seed(5);
    const Tensor tokens = randint(0, 64, {8, kLength + 1});
    std::vector<int> own;
    for (int d = 0; d < each; ++d) own.push_back(world.rank().value() * each + d);
    DataParallel model(Gpt(how.model), {.device_ids = own,
                                        .buckets = {.first_bytes = 1 << 20, .bytes = 1 << 20},
                                        .shard = shard,
                                        .world = world,
                                        .loss = ProcessLoss::sum});
    optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss_of(model, tokens, how.autocast).backward();
      optimizer.step();
    }
    for (const auto& [key, value] : model.state_dict())
      found[std::size_t(world.rank().value())].push_back(value.detach().to_vector<float>());
  });
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
  for (const auto& values : found) EXPECT_EQ(values, found[0]);
  return found[0];
}

std::size_t parameter_bytes(const GptOptions& model = kLarge) {
  std::size_t bytes = 0;
  for (const Tensor& parameter : Gpt(model).parameters()) bytes += std::size_t(parameter.numel()) * sizeof(float);
  return bytes;
}

TEST(ShardedGpt, TrainsInAQuarterOfItsMemoryToTheSameBits) {
  const std::size_t all = 4 * parameter_bytes();  // with gradients and two tensors of state
  EXPECT_THROW(trained(Shard::none, {.memory_bytes = all / 4}), OutOfMemory);
  EXPECT_THROW(trained(Shard::gradients, {.memory_bytes = all / 4}), OutOfMemory);
  const auto expected = trained(Shard::none, {});
  EXPECT_EQ(trained(Shard::parameters, {.memory_bytes = all / 4}), expected);
  for (const int processes : {2, 8})  // which have slots too
    EXPECT_EQ(trained(Shard::parameters, {.memory_bytes = all / 3, .processes = processes}), expected) << processes;
}

// Processes do not wait for each other in vain where memory is short: the model trains, or an error says so at once.
TEST(ShardedGpt, TrainsOrEndsAtOnceWhereMemoryIsShort) {
  const std::size_t all = parameter_bytes(kSmall);
  int trained_in_a_row = 0;
  for (std::size_t bytes = all; trained_in_a_row < 3; bytes += all / 16) {
    ASSERT_LT(bytes, 6 * all);
    try {
      trained(Shard::parameters, {.memory_bytes = bytes, .processes = 8, .model = kSmall});
      ++trained_in_a_row;
    } catch (const std::exception& error) {
      trained_in_a_row = 0;
      const std::string message = error.what();
      EXPECT_EQ(message.find("did not reach"), message.npos) << bytes << ": " << message;
      EXPECT_EQ(message.find("ms for the parameters"), message.npos) << bytes << ": " << message;
    }
  }
}

TEST(ShardedGpt, TrainsToTheSameBitsUnderAutocast) {
  for (const int devices : {2, 3, 6})
    for (const DType dtype : {kBFloat16, kFloat16}) {
      if (devices > 2 && testing::kStride > 1) break;  // with more devices a sanitizer sees nothing new
      const auto expected = trained(Shard::none, {.devices = devices, .autocast = dtype});
      for (const int processes : {1, devices})
        EXPECT_EQ(trained(Shard::parameters, {.devices = devices, .processes = processes, .autocast = dtype}), expected)
            << devices << ' ' << processes << ' ' << dtype;
    }
}

// A pass brings each unit once, though layers lie in several units, which take turns. Under autocast each parameter is
// brought in 16 bits, and those of the norms and the embeddings, 1.5 % of all, in float32.
TEST(ShardedGpt, BringsHalfTheBytesUnderAutocast) {
  std::vector<double> brought;
  for (const std::optional<DType> autocast : {std::optional<DType>(), std::optional(kBFloat16)}) {
    const SimulatedDevices devices({.count = 4});
    manual_seed(5);
    const Tensor tokens = randint(0, 64, {8, kLength + 1});
    DataParallel model(Gpt(kLarge),
                       {.buckets = {.first_bytes = 1 << 20, .bytes = 1 << 20}, .shard = Shard::parameters});
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    std::optional<Trace> trace;
    for (int step = 0; step < 4; ++step) {
      if (step == 3) trace.emplace();
      optimizer.zero_grad();
      loss_of(model, tokens, autocast).backward();
      optimizer.step();
      for (int d = 0; d < 4; ++d) synchronize(Device::cuda(d));
    }
    double bytes = 0;
    for (const TraceEvent& event : trace->events())
      if (event.kind == TraceKind::copy_between && event.device == Device::cuda(3)) bytes += double(event.bytes);
    brought.push_back(bytes);
  }
  EXPECT_NEAR(brought[0] / double(parameter_bytes()), 2 * 3 / 4., 0.02);  // forward and backward, from three devices
  EXPECT_NEAR(brought[1] / brought[0], 0.5, 0.02);
}

}  // namespace
}  // namespace lockstep
