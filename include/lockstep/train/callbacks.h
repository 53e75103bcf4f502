// Callbacks that are ready: EarlyStopping, ModelCheckpoint. Names and rules are PyTorch Lightning's.
//
//   train::EarlyStopping early({.monitor = "validation_loss", .patience = 3});
//   train::ModelCheckpoint best({.path = "best.safetensors", .monitor = "validation_accuracy"});
//   trainer.fit(net, loader, {.loss = loss, .optimizer = optimizer, .validation = test, .callbacks = {early, best}});
//   net.load_state_dict(load("best.safetensors"));
//
// Of losses less is better, of accuracies more. For a metric of your own say which: .mode = train::MetricMode::max.
#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include <lockstep/optim/reduce_lr_on_plateau.h>
#include <lockstep/train/callback.h>

namespace lockstep::train {

using optim::MetricMode;

/// The best value of one metric so far, looked at when an epoch has ended.
class LOCKSTEP_API Monitor {
 public:
  /// Throws InvalidArgument for options out of range, and without a mode for a metric of which known_mode()
  /// (criterion.h) says none. `owner`: whose it is.
  Monitor(const char* owner, std::string metric, std::optional<MetricMode> mode, double min_delta);

  const std::string& metric() const noexcept { return metric_; }  ///< A column of the history.
  /// Throws InvalidArgument for a metric that the epoch cannot bring, or has not brought.
  void check(const FitState& fit) const;
  double value(const FitState& fit) const { return fit.metric(metric_); }  ///< In the epoch that has ended.
  /// Whether it is better than the best one by more than min_delta, which it is then. NaN never is.
  bool improves(double value, std::int64_t epoch);

  double best() const noexcept { return best_; }  ///< Infinite, of the worse sign, before the first one.
  std::int64_t best_epoch() const noexcept { return best_epoch_; }  ///< From 1; 0: none.
  MetricMode mode() const noexcept { return mode_; }                ///< Which values are better.
  void reset();
  /// As if this had been the best.
  void set(double best, std::int64_t epoch) noexcept { best_ = best, best_epoch_ = epoch; }

 private:
  std::string metric_;
  MetricMode mode_;
  double min_delta_;
  double best_ = 0;
  std::int64_t best_epoch_ = 0;
};

struct EarlyStoppingOptions {
  std::string monitor = "validation_loss";  ///< A column of the history.
  double min_delta = 0;                     ///< A change of no more than this is no improvement.
  std::int64_t patience = 3;                ///< Stops after so many epochs in sequence that are no better.
  /// Which values are better. Must be given for metrics that are neither losses nor of metric_by_name().
  std::optional<Choice<MetricMode>> mode = {};
  bool check_finite = true;  ///< Stop when the metric is not finite.
};

/// Stops training when a metric has stopped improving, and says so where progress is shown. A run that it stopped stays
/// stopped when it is resumed.
class LOCKSTEP_API EarlyStopping : public Callback {
 public:
  /// Throws InvalidArgument for options out of range, and for a metric whose mode is neither known nor given.
  explicit EarlyStopping(const EarlyStoppingOptions& options = {});

  /// Infinite, of the worse sign, before the first epoch.
  double best_score() const noexcept { return monitor_.best(); }
  std::int64_t best_epoch() const noexcept { return monitor_.best_epoch(); }  ///< From 1; 0: none.
  std::int64_t wait_count() const noexcept { return wait_count_; }            ///< Epochs since, that were no better.
  std::int64_t stopped_epoch() const noexcept { return stopped_epoch_; }      ///< 0: it has not stopped training.

  void on_fit_begin(FitState& fit) override;
  void on_epoch_end(FitState& fit) override;
  std::string name() const override { return "EarlyStopping(" + monitor_.metric() + ')'; }
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  EarlyStoppingOptions options_;
  Monitor monitor_;
  std::int64_t wait_count_ = 0;
  std::int64_t stopped_epoch_ = 0;
};

struct ModelCheckpointOptions {
  std::filesystem::path path = "best.safetensors";  ///< Of the file.
  std::string monitor = "validation_loss";          ///< A column of the history.
  /// Which values are better. Must be given for metrics that are neither losses nor of metric_by_name().
  std::optional<Choice<MetricMode>> mode = {};
};

/// Keeps the best model of a run: at the end of each epoch whose metric is better than all before, writes the module's
/// state dict, whole or not at all, with the metric, epoch and step in the file's texts. The first process writes.
/// To go on with training there are TrainerOptions::checkpoint.
class LOCKSTEP_API ModelCheckpoint : public Callback {
 public:
  /// Throws InvalidArgument for an empty path, and for a metric whose mode is neither known nor given.
  explicit ModelCheckpoint(const ModelCheckpointOptions& options = {});

  const std::filesystem::path& best_model_path() const noexcept { return options_.path; }  ///< As the options say.
  /// Infinite, of the worse sign, before the first epoch.
  double best_model_score() const noexcept { return monitor_.best(); }
  std::int64_t best_epoch() const noexcept { return monitor_.best_epoch(); }  ///< From 1; 0: none.

  void on_fit_begin(FitState& fit) override;
  void on_epoch_end(FitState& fit) override;
  std::string name() const override { return "ModelCheckpoint(" + monitor_.metric() + ')'; }
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  ModelCheckpointOptions options_;
  Monitor monitor_;
};

}  // namespace lockstep::train
