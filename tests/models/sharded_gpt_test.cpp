// A GPT that does not fit on a device: its parameters, gradients and AdamW's state are four times the device's memory.
#include <gtest/gtest.h>

#include <optional>

#include <lockstep/lockstep.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/trace.h>

#include "models/gpt.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLength = 8;

Tensor loss_of(DataParallel<Gpt>& model, const Tensor& tokens, std::optional<DType> autocast) {
  std::optional<Autocast> region;
  if (autocast) region.emplace(*autocast);
  const Tensor logits = model(tokens.slice(1, 0, kLength).to(model.device()));
  return nn::functional::cross_entropy(logits.flatten(0, 1),
                                       tokens.slice(1, 1, kLength + 1).to(model.device()).flatten());
}

std::vector<std::vector<float>> trained(std::size_t memory_bytes, Shard shard, int count = 8,
                                        std::optional<DType> autocast = {}) {
  const SimulatedDevices devices({.count = count, .memory_bytes = memory_bytes});
  manual_seed(5);
  const Tensor tokens = randint(0, 64, {8, kLength + 1});
  DataParallel model(Gpt({.vocabulary = 64, .length = kLength, .width = 256, .heads = 4, .layers = 6}),
                     {.buckets = {.first_bytes = 1 << 20, .bytes = 1 << 20}, .shard = shard});
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    loss_of(model, tokens, autocast).backward();
    optimizer.step();
  }
  std::vector<std::vector<float>> values;
  for (const auto& [key, value] : model.state_dict()) values.push_back(value.detach().to_vector<float>());
  return values;
}

std::size_t parameter_bytes() {
  std::size_t bytes = 0;
  for (const Tensor& parameter :
       Gpt({.vocabulary = 64, .length = kLength, .width = 256, .heads = 4, .layers = 6}).parameters())
    bytes += std::size_t(parameter.numel()) * sizeof(float);
  return bytes;
}

TEST(ShardedGpt, TrainsInAQuarterOfItsMemoryToTheSameBits) {
  const std::size_t all = 4 * parameter_bytes();  // with gradients and two tensors of state
  EXPECT_THROW(trained(all / 4, Shard::none), OutOfMemory);
  EXPECT_THROW(trained(all / 4, Shard::gradients), OutOfMemory);
  EXPECT_EQ(trained(all / 4, Shard::parameters), trained(std::size_t(1) << 30, Shard::none));
}

TEST(ShardedGpt, TrainsToTheSameBitsUnderAutocast) {
  for (const int devices : {2, 3, 5})
    for (const DType dtype : {kBFloat16, kFloat16})
      EXPECT_EQ(trained(std::size_t(1) << 30, Shard::parameters, devices, dtype),
                trained(std::size_t(1) << 30, Shard::none, devices, dtype))
          << devices << ' ' << dtype;
}

// A pass brings each unit once, though layers lie in several units, which take turns. Under autocast each parameter is
// brought in 16 bits, and those of the norms and the embeddings, 1.5 % of all, in float32.
TEST(ShardedGpt, BringsHalfTheBytesUnderAutocast) {
  std::vector<double> brought;
  for (const std::optional<DType> autocast : {std::optional<DType>(), std::optional(kBFloat16)}) {
    const SimulatedDevices devices({.count = 4});
    manual_seed(5);
    const Tensor tokens = randint(0, 64, {8, kLength + 1});
    DataParallel model(Gpt({.vocabulary = 64, .length = kLength, .width = 256, .heads = 4, .layers = 6}),
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
