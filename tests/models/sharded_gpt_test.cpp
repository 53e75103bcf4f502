// A GPT that does not fit on a device: its parameters, gradients and AdamW's state are four times the device's memory.
#include <gtest/gtest.h>

#include <lockstep/lockstep.h>
#include <lockstep/runtime/simulation.h>

#include "models/gpt.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLength = 8;

std::vector<std::vector<float>> trained(std::size_t memory_bytes, Shard shard) {
  const SimulatedDevices devices({.count = 8, .memory_bytes = memory_bytes});
  manual_seed(5);
  const Tensor tokens = randint(0, 64, {8, kLength + 1});
  DataParallel model(Gpt({.vocabulary = 64, .length = kLength, .width = 256, .heads = 4, .layers = 6}),
                     {.buckets = {.first_bytes = 1 << 20, .bytes = 1 << 20}, .shard = shard});
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const Tensor logits = model(tokens.slice(1, 0, kLength).to(model.device()));
    nn::functional::cross_entropy(logits.flatten(0, 1), tokens.slice(1, 1, kLength + 1).to(model.device()).flatten())
        .backward();
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

}  // namespace
}  // namespace lockstep
