// memory_plan() against the simulated devices' greatest use, for real models. Activations are small beside parameters.
#include <gtest/gtest.h>

#include <optional>

#include <lockstep/lockstep.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>

#include "models/gpt.h"
#include "models/resnet.h"

namespace lockstep {
namespace {

// `workspace`: the bytes of the greatest workspace of an operation.
template <class Make, class Input>
void expect_peaks(const Make& make, const Input& input, const BucketOptions& buckets, std::size_t workspace = 0,
                  bool autocast = false) {
  for (const int count : {2, 4, 8}) {
    const MemoryPlan plan = memory_plan(make(), {.devices = count, .buckets = buckets, .autocast = autocast});
    for (const Shard shard : {Shard::none, Shard::optimizer_state, Shard::gradients, Shard::parameters}) {
      const SimulatedDevices devices({.count = count});
      DataParallel model(make(), {.buckets = buckets, .shard = shard});
      optim::AdamW optimizer(model.parameters());
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        std::optional<Autocast> region;
        if (autocast) region.emplace(kBFloat16);
        const Tensor loss = sum(model(input(count).to(model.device())));
        region.reset();
        loss.backward();
        optimizer.step();
        for (int d = 0; d < count && step == 1; ++d) reset_peak_memory(Device::cuda(d));
      }
      for (int d = 0; d < count; ++d)
        EXPECT_NEAR(double(memory_stats(Device::cuda(d)).peak_in_use) / double(plan[shard].total() + workspace), 1,
                    0.05)
            << count << " devices, " << shard << ", device " << d;
    }
  }
}

void expect_peaks_of_gpt(bool autocast) {
  expect_peaks([] { return Gpt({.vocabulary = 64, .length = 4, .width = 256, .heads = 4, .layers = 4}); },
               [](int count) {
                 return randint(0, 64, {count, 4});
               },
               {.first_bytes = 1 << 20, .bytes = 1 << 20}, 0, autocast);
}

TEST(MemoryPlan, IsThePeakOfGpt) { expect_peaks_of_gpt(false); }
TEST(MemoryPlan, IsThePeakOfGptUnderAutocast) { expect_peaks_of_gpt(true); }

// A convolution's weight gradient is computed in a workspace, in oneDNN's layout.
TEST(MemoryPlan, IsThePeakOfResNet18) {
  expect_peaks([] { return ResNet18(10, 64); },
               [](int count) {
                 return rand({count, 3, 16, 16});
               },
               {.first_bytes = 1 << 20, .bytes = 4 << 20}, 512 * 512 * 9 * sizeof(float));
}

}  // namespace
}  // namespace lockstep
