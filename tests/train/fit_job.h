// A small job for a Trainer: a noisy regression with momentum and a schedule that changes in every step.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <lockstep/data/loader.h>
#include <lockstep/data/tensor_dataset.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/loss.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/schedule.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/sync_batch_norm.h>
#include <lockstep/tensor/random.h>
#include <lockstep/train/trainer.h>

namespace lockstep::testing {

inline constexpr train::ProgressOptions kSilent = {.out = nullptr};

class FitJob {
 public:
  struct Options {
    std::int64_t batch_size = 5;
    double noise = 0;           ///< Added to inputs in training, from the thread's random sequence.
    std::int64_t fail_in = -1;  ///< Throws std::runtime_error in this call of the loss, counted from 0.
    bool validates = false;
    bool schedules = true;  ///< Uses a learning rate schedule.
    double momentum = 0.9;
    bool norm_and_dropout = false;  ///< The net has a SyncBatchNorm and a Dropout.
    data::BatchShare share = {};    ///< The share of the loaders.
    bool uses_sum_loss = false;     ///< The loss is this process's part of a sum, for ProcessLoss::sum.
    bool plateau = false;           ///< Uses ReduceLROnPlateau instead of a schedule.
    train::Callbacks callbacks = {};
  };

  explicit FitJob(const Options& options)
      : options_(options), net_(seeded_net(options)), loader_(make_loader(46, options)) {}

  train::History fit(const train::TrainerOptions& options) {
    const train::Trainer trainer(options);
    const auto loss = [this](auto& model, auto& batch, auto& metrics) {
      if (calls_++ == options_.fail_in) throw std::runtime_error("power failure");
      auto& [input, target] = batch;
      const bool noisy = options_.noise > 0 && model.module().is_training();
      const Tensor output =
          model(noisy ? input + randn(input.sizes(), {.device = input.device()}) * options_.noise : input);
      metrics.add("size", mean(output * output));
      if (!options_.uses_sum_loss) return mse_loss(output, target);
      const Tensor error = output - target;
      return sum(error * error) / double(2 * model.batch_rows());
    };
    return trainer.fit(net_, loader_,
                       {.loss = loss,
                        .optimizer = optimizer_,
                        .schedule = options_.schedules && !options_.plateau ? &schedule_ : nullptr,
                        .schedule_step = train::ScheduleStep::step,
                        .plateau = options_.plateau ? &plateau_ : nullptr,
                        .plateau_monitor = "train_loss",
                        .validation = options_.validates ? train::Batches<Batch>(validation_) : train::Batches<Batch>(),
                        .callbacks = options_.callbacks});
  }

  nn::Sequential& net() { return net_; }
  const optim::SGD& optimizer() const { return optimizer_; }
  std::int64_t calls() const { return calls_; }  ///< Calls of the loss so far.
  /// All parameters, concatenated.
  std::vector<float> parameters() const {
    std::vector<float> all;
    for (const Tensor& parameter : net_.parameters())
      for (const float value : parameter.detach().to_vector<float>()) all.push_back(value);
    return all;
  }

 private:
  using Loader = data::DataLoader<data::TensorDataset<2>>;
  using Batch = train::BatchOf<Loader>;

  static nn::Sequential seeded_net(const Options& options) {
    manual_seed(1);
    if (options.norm_and_dropout)
      return nn::Sequential(nn::Linear(4, 8), nn::SyncBatchNorm(8), nn::ReLU(), nn::Dropout(0.3), nn::Linear(8, 2));
    return nn::Sequential(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
  }
  static Loader make_loader(std::int64_t rows, const Options& options) {
    GeneratorState generator{.seed = std::uint64_t(rows)};
    const GeneratorGuard guard(generator);
    return Loader(data::TensorDataset<2>(randn({rows, 4}), randn({rows, 2})),
                  {.batch_size = options.batch_size, .shuffle = true, .seed = 3, .share = options.share});
  }

  Options options_;
  nn::Sequential net_;
  Loader loader_, validation_ = make_loader(13, options_);
  optim::SGD optimizer_{net_.parameters(), {.lr = 0.05, .momentum = options_.momentum}};
  optim::StepLR schedule_{optimizer_, {.step_size = 4, .gamma = 0.97}};
  optim::ReduceLROnPlateau plateau_{optimizer_, {.factor = 0.5, .patience = 0, .threshold = 0.1}};
  std::int64_t calls_ = 0;
};

/// All columns except the time.
inline std::map<std::string, train::History::Column> columns_of(const train::History& history) {
  std::map<std::string, train::History::Column> columns;
  for (const std::string& name : history.columns())
    if (name != "seconds") columns.emplace(name, history.column(name));
  return columns;
}

}  // namespace lockstep::testing
