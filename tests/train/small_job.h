// A short training job in which one of several processes can behave differently.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include <lockstep/tensor/creation.h>

#include "train/fit_job.h"

namespace lockstep::testing {

inline bool is_second(const World& world) { return world.rank() == ProcessRank(1); }

/// Settings in which a process can differ from the others.
struct JobSettings {
  train::TrainerOptions trainer = {.progress = kSilent};
  std::optional<data::BatchShare> share = {};
  std::int64_t rows = 12;
  double lr = 0.1;
  std::function<double(std::int64_t call)> factor = [](std::int64_t) { return 1.; };  ///< Factor of the loss.
};

/// One epoch of three steps of four rows each, on one simulated device. `change` sets how a process differs.
class SmallJob {
 public:
  explicit SmallJob(std::function<void(const World&, JobSettings&)> change) : change_(std::move(change)) {}

  train::History operator()(const World& world) const {
    JobSettings settings;
    settings.trainer.parallel.world = world;
    settings.trainer.devices = {Device::cuda(world.rank().value())};
    change_(world, settings);
    const train::Trainer trainer(settings.trainer);
    nn::Linear net(2, 1);
    optim::SGD optimizer(net.parameters(), {.lr = settings.lr});
    data::DataLoader loader(data::TensorDataset(ones({settings.rows, 2})),
                            {.batch_size = 4, .seed = 1, .share = settings.share.value_or(trainer.share())});
    std::int64_t calls = 0;
    return trainer.fit(
        net, loader,
        {.loss = [&](auto& model, auto& batch, auto&) { return mean(model(batch)) * settings.factor(calls++); },
         .optimizer = optimizer});
  }

 private:
  std::function<void(const World&, JobSettings&)> change_;
};

}  // namespace lockstep::testing
