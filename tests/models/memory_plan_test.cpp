// memory_plan() against the simulated devices' greatest use, for real models. Activations are small beside parameters.
#include <gtest/gtest.h>

#include <optional>

#include <lockstep/lockstep.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>

#include "models/gpt.h"
#include "models/resnet.h"
#include "support/repetitions.h"

namespace lockstep {
namespace {

struct Case {
  BucketOptions buckets = {};
  bool autocast = false;
  /// Operations have workspaces, whose bytes depend on the processor: what is used without sharding, beyond the plan.
  bool has_workspace = false;
};

template <class Make, class Input>
void expect_peaks(const Make& make, const Input& input, const Case& of) {
  const auto& [buckets, autocast, has_workspace] = of;
  for (const int count : {2, 4, 8}) {
    if (count > 2 && testing::kStride > 1) break;  // with more devices a sanitizer sees nothing new
    double workspace = 0;
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
      const auto peak = [](int d) { return double(memory_stats(Device::cuda(d)).peak_in_use); };
      const auto planned = double(plan[shard].total());
      if (has_workspace && shard == Shard::none) workspace = peak(0) - planned;
      EXPECT_GE(workspace, 0);
      for (int d = 0; d < count; ++d)
        EXPECT_NEAR(peak(d) / (planned + workspace), 1, 0.05) << count << " devices, " << shard << ", device " << d;
    }
  }
}

void expect_peaks_of_gpt(bool autocast) {
  expect_peaks([] { return Gpt({.vocabulary = 64, .length = 4, .width = 256, .heads = 4, .layers = 4}); },
               [](int count) {
                 return randint(0, 64, {count, 4});
               },
               {.buckets = {.first_bytes = 1 << 20, .bytes = 1 << 20}, .autocast = autocast});
}

TEST(MemoryPlan, IsThePeakOfGpt) { expect_peaks_of_gpt(false); }
TEST(MemoryPlan, IsThePeakOfGptUnderAutocast) { expect_peaks_of_gpt(true); }

// A convolution's weight gradient is computed in a workspace, in oneDNN's layout.
TEST(MemoryPlan, IsThePeakOfResNet18) {
  expect_peaks([] { return ResNet18(10, 64); },
               [](int count) {
                 return rand({count, 3, 16, 16});
               },
               {.buckets = {.first_bytes = 1 << 20, .bytes = 4 << 20}, .has_workspace = true});
}

}  // namespace
}  // namespace lockstep
