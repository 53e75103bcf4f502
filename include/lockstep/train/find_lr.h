// The learning-rate range test of Smith 2017 ("Cyclical learning rates"), with the names and defaults of PyTorch
// Lightning's. Trainer::find_lr() runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <lockstep/nn/module.h>
#include <lockstep/optim/optimizer.h>
#include <lockstep/report/history.h>
#include <lockstep/train/batches.h>
#include <lockstep/train/fit_loop.h>
#include <lockstep/train/trainer_options.h>

namespace lockstep::train {

struct FindLROptions {
  double min_lr = 1e-8;             ///< The first rate.
  double max_lr = 1;                ///< The last rate.
  std::int64_t num_training = 100;  ///< Steps.
  double early_stop_threshold = 4;  ///< Ends when the smoothed loss exceeds this times its minimum; 0: never.
  double beta = 0.98;               ///< Decay of the exponential moving average of the loss.
};

/// The result of find_lr().
struct LRFinder {
  /// Columns step, lr, loss (before the step with that learning rate) and smoothed_loss.
  History table;
  /// The learning rate at which the smoothed loss falls steepest as a function of the rate's logarithm. The first 10
  /// steps and the last step are skipped. Nullopt if the loss never falls.
  std::optional<double> suggestion;
};

namespace detail {

/// The part of find_lr() that does not depend on the types of the module and its batches. For the library.
class LOCKSTEP_API LRSweep {
 public:
  /// Saves the state of module, optimizer, loader and random numbers. Throws InvalidArgument for options out of range,
  /// an optimizer that would not train the module, an empty loader, and a loader with another share than `share`.
  LRSweep(const TrainerOptions& options, const FindLROptions& how, nn::ModuleBase& module, optim::Optimizer& optimizer,
          const LoaderHandle& loader, const data::BatchShare& share);
  ~LRSweep();
  LRSweep(const LRSweep&) = delete;
  LRSweep& operator=(const LRSweep&) = delete;

  Tensor scaled(const Tensor& loss) const;
  /// Runs the sweep and restores the saved state.
  LRFinder run(Device device, const FitLoop::TrainEpoch& train_epoch);

 private:
  struct SavedState;

  double rate(std::int64_t step) const;
  void update(Metrics& metrics, const Tensor& factor);
  std::optional<double> suggestion() const;

  const TrainerOptions& options_;
  const FindLROptions how_;
  nn::ModuleBase& module_;
  optim::Optimizer& optimizer_;
  std::unique_ptr<SavedState> saved_;
  std::int64_t step_ = 0;
  bool is_over_ = false;
  double average_ = 0;  // exponential moving average of the losses, not corrected for its start at 0
  double least_ = 0;
  std::vector<double> smoothed_;
  LRFinder found_;
};

}  // namespace detail
}  // namespace lockstep::train
