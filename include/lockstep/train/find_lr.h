// The learning-rate range test: Smith 2017 ("Cyclical learning rates"), with the names and defaults of PyTorch
// Lightning's. Trainer::find_lr() does it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <lockstep/nn/module.h>
#include <lockstep/optim/optimizer.h>
#include <lockstep/train/batches.h>
#include <lockstep/train/fit_loop.h>
#include <lockstep/train/history.h>
#include <lockstep/train/trainer_options.h>

namespace lockstep::train {

struct FindLROptions {
  double min_lr = 1e-8;             ///< The first rate.
  double max_lr = 1;                ///< The last rate.
  std::int64_t num_training = 100;  ///< Steps.
  double early_stop_threshold = 4;  ///< Ends when the smoothed loss is more than so many times the least; 0: never.
  double beta = 0.98;               ///< Of the smoothed loss: how much of it is the one before.
};

/// What find_lr() gives.
struct LRFinder {
  /// Columns step, lr, loss (before the step with that rate) and smoothed_loss.
  History table;
  /// The rate at which the smoothed loss falls steepest by the logarithm of the rate, but for the first 10 steps and
  /// the last one. Nothing where it falls nowhere.
  std::optional<double> suggestion;
};

namespace detail {

/// All of find_lr() that does not depend on the types of the module and its batches. For the library.
class LOCKSTEP_API LRSweep {
 public:
  /// Keeps what there is. Throws InvalidArgument for what does not fit.
  LRSweep(const TrainerOptions& options, const FindLROptions& how, nn::ModuleBase& module, optim::Optimizer& optimizer,
          const LoaderHandle& loader, const data::BatchShare& share);
  ~LRSweep();
  LRSweep(const LRSweep&) = delete;
  LRSweep& operator=(const LRSweep&) = delete;

  Tensor scaled(const Tensor& loss) const;
  /// Gives back what was kept.
  LRFinder run(Device device, const FitLoop::TrainEpoch& train_epoch);

 private:
  struct Kept;

  double rate(std::int64_t step) const;
  void update(Metrics& metrics, const Tensor& factor);
  std::optional<double> suggestion() const;

  const TrainerOptions& options_;
  const FindLROptions how_;
  nn::ModuleBase& module_;
  optim::Optimizer& optimizer_;
  std::unique_ptr<Kept> kept_;
  std::int64_t step_ = 0;
  bool is_over_ = false;
  double average_ = 0;  // of the losses, towards 0 at first
  double least_ = 0;
  std::vector<double> smoothed_;
  LRFinder found_;
};

}  // namespace detail
}  // namespace lockstep::train
