// The allocator's peak memory in a training step on one simulated GPU: parameters, gradients, optimizer state and saved
// tensors; in float32, with autocast, and with activation checkpointing.
//   memory CASE        CASE: gpt resnet
// Prints one JSON object per line: name, peak_mib.
#include <lockstep/lockstep.h>

#include <cstdio>
#include <optional>
#include <string>

#include "harness.h"
#include "models/gpt.h"
#include "models/resnet.h"

using namespace lockstep;

namespace {

// Runs three steps, so that the optimizer's state exists, and measures the peak of the third.
template <class Net>
void step_of(const std::string& name, Net net, const Tensor& x, const Tensor& y, bool autocast) {
  const Device device("cuda:0");
  net.to(device);
  const Tensor input = x.to(device), target = y.to(device);
  optim::AdamW optimizer(net.parameters(), {.lr = 3e-4});
  for (int step = 0; step < 3; ++step) {
    reset_peak_memory(device);
    optimizer.zero_grad();
    Tensor loss;
    {
      std::optional<Autocast> region;
      if (autocast) region.emplace(kBFloat16);
      const Tensor scores = net(input);
      loss = nn::cross_entropy(scores.view({-1, scores.size(-1)}), target);
    }
    loss.backward();
    optimizer.step();
  }
  const double peak = double(memory_stats(device).peak_in_use) / (1 << 20);
  std::printf("{\"name\": \"%s%s\", \"peak_mib\": %.1f}\n", name.c_str(), autocast ? "/bfloat16" : "/float32", peak);
}

// The gpt of workloads.cpp.
void gpt_steps() {
  const Tensor ids = randint(0, 4096, {8, 128}), next = randint(0, 4096, {8 * 128});
  for (const bool checkpoint : {false, true})
    for (const bool autocast : {false, true})
      step_of(checkpoint ? "gpt/checkpointed" : "gpt",
              Gpt({.vocabulary = 4096, .length = 128, .width = 256, .heads = 4, .layers = 4, .checkpoint = checkpoint}),
              ids, next, autocast);
}

void resnet_steps() {
  const Tensor x = randn({64, 3, 32, 32}), y = randint(0, 10, {64});
  for (const bool autocast : {false, true}) step_of("resnet", ResNet18<>(), x, y, autocast);
}

}  // namespace

int main(int argc, char** argv) {
  manual_seed(1);
  const SimulatedDevices devices({.count = 1, .memory_bytes = std::size_t(8) << 30});
  return bench::run_case(argc, argv, {{"gpt", gpt_steps}, {"resnet", resnet_steps}});
}
