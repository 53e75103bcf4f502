// A DataParallel of a model that has no memory yet: it trains to the same bits, and the host never holds all of it.
#include <gtest/gtest.h>

#include <optional>

#include <lockstep/optim/adam.h>
#include <lockstep/parallel/memory_plan.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/deferred_init.h>

#include "parallel/sharded.h"

namespace lockstep {
namespace {

constexpr Shard kLevels[] = {Shard::none, Shard::optimizer_state, Shard::gradients, Shard::parameters};

struct Tower : nn::Module<Tower> {
  std::vector<nn::Linear> layers;
  Tower() {
    for (int i = 0; i < 20; ++i) layers.emplace_back(200, 200);
  }
  auto members() { return nn::members("layers", layers); }
  Tensor forward(const Tensor& x) {
    Tensor y = x;
    for (nn::Linear& layer : layers) y = layer(y);
    return y;
  }
};
constexpr std::size_t kLayerBytes = 200 * 201 * sizeof(float);

TEST(DeferredModel, TrainsToTheSameBits) {
  for (const Shard shard : kLevels)
    for (const int count : {1, 3}) {
      const SimulatedDevices devices({.count = count});
      std::vector<std::vector<std::vector<double>>> trained;
      for (const bool deferred : {false, true}) {
        manual_seed(5);
        std::optional<DeferredInit> guard;
        if (deferred) guard.emplace();
        DataParallel model(sharded::Net(), sharded::options(shard));
        guard.reset();
        optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
        for (int step = 0; step < 4; ++step) {
          optimizer.zero_grad();
          sharded::loss_of(model, step).backward();
          optimizer.step();
        }
        trained.push_back(sharded::values(model.state_dict()));
      }
      EXPECT_EQ(trained[0], trained[1]) << int(shard) << ' ' << count;
    }
}

TEST(DeferredModel, IsMadeUnitByUnit) {
  const SimulatedDevices devices({.count = 4});
  const std::size_t before = memory_stats(Device()).in_use;
  reset_peak_memory(Device());
  Tower tower = [] {
    const DeferredInit deferred;
    return Tower();
  }();
  memory_plan(tower, {.devices = 4, .state_tensors = 2});
  EXPECT_LT(memory_stats(Device()).peak_in_use - before, kLayerBytes);
  const DataParallel model(std::move(tower),
                           {.buckets = {.first_bytes = kLayerBytes, .bytes = kLayerBytes}, .shard = Shard::parameters});
  EXPECT_LT(memory_stats(Device()).peak_in_use - before, 2 * kLayerBytes);
  EXPECT_LT(memory_stats(Device::cuda(0)).peak_in_use,
            15 * kLayerBytes);  // shares of parameters and gradients, buffers
  const Tower at_once;
  EXPECT_GT(memory_stats(Device()).peak_in_use - before, 20 * kLayerBytes - kLayerBytes);  // it would have been seen
}

TEST(DeferredModel, GivesValuesToASharedParameterInParts) {
  const SimulatedDevices devices({.count = 2});
  DataParallel model(nn::Linear(8, 8), {.shard = Shard::parameters});
  manual_seed(2);
  const Tensor expected = randn({16, 8});
  manual_seed(2);
  const Tensor deferred = [] {
    const DeferredInit guard;
    return randn({16, 8});
  }();
  {
    const NoGrad guard;
    model.module().weight.copy_(deferred.slice(0, 4, 12));
  }
  EXPECT_EQ(sharded::values(model.module().weight.to(Device())), sharded::values(expected.slice(0, 4, 12)));
}

}  // namespace
}  // namespace lockstep
