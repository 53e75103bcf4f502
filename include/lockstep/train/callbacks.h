// Ready-made callbacks: EarlyStopping, ModelCheckpoint. Names and rules are PyTorch Lightning's.
//
//   train::EarlyStopping early({.monitor = "validation_loss", .patience = 3});
//   train::ModelCheckpoint best({.path = "best.safetensors", .monitor = "validation_accuracy"});
//   trainer.fit(net, loader, {.loss = loss, .optimizer = optimizer, .validation = test, .callbacks = {early, best}});
//   net.load_state_dict(load("best.safetensors"));
//
// Lower is better for losses, higher for accuracies. Other metrics need a mode: .mode = train::MetricMode::max.
#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include <lockstep/optim/reduce_lr_on_plateau.h>
#include <lockstep/train/callback.h>

namespace lockstep::train {

using optim::MetricMode;

/// The best value of one metric so far, updated at the end of each epoch.
class LOCKSTEP_API Monitor {
 public:
  /// Throws InvalidArgument for options out of range, and for a metric without a mode if known_mode() (criterion.h)
  /// does not know the metric. `owner`: the name of the callback, for errors.
  Monitor(const char* owner, std::string metric, std::optional<MetricMode> mode, double min_delta);

  const std::string& metric() const noexcept { return metric_; }  ///< A column of the history.
  /// Throws InvalidArgument for a validation metric if there is no validation loader.
  void check(const FitState& fit) const;
  double value(const FitState& fit) const { return fit.metric(metric_); }  ///< The value in the epoch that just ended.
  /// If the value is better than the best one by more than min_delta, records it and returns true. NaN is never
  /// better.
  bool improves(double value, std::int64_t epoch);

  /// The best value so far. Before the first value: +inf for min, -inf for max.
  double best() const noexcept { return best_; }
  std::int64_t best_epoch() const noexcept { return best_epoch_; }  ///< From 1; 0 before the first best value.
  MetricMode mode() const noexcept { return mode_; }                ///< Which values are better.
  void reset();
  /// Records `best`, the value of `epoch`, as the best value so far.
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
  double min_delta = 0;                     ///< A change of at most this is not an improvement.
  std::int64_t patience = 3;                ///< Stops after this many epochs in a row without improvement.
  /// Which values are better. Required for metrics that are neither losses nor known to metric_by_name().
  std::optional<Choice<MetricMode>> mode = {};
  bool check_finite = true;  ///< Stop when the metric is not finite.
};

/// Stops training when a metric has stopped improving, and shows the reason with the progress. If such a run is
/// resumed, it stops again at once.
class LOCKSTEP_API EarlyStopping : public Callback {
 public:
  /// Throws InvalidArgument for options out of range, and for a metric without a known or given mode.
  explicit EarlyStopping(const EarlyStoppingOptions& options = {});

  /// The best value so far. Before the first epoch: +inf for min, -inf for max.
  double best_score() const noexcept { return monitor_.best(); }
  /// From 1; 0 before the first best value.
  std::int64_t best_epoch() const noexcept { return monitor_.best_epoch(); }
  std::int64_t wait_count() const noexcept { return wait_count_; }        ///< Epochs since the best one.
  std::int64_t stopped_epoch() const noexcept { return stopped_epoch_; }  ///< From 1; 0 if it has not stopped training.

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
  std::filesystem::path path = "best.safetensors";  ///< The file.
  std::string monitor = "validation_loss";          ///< A column of the history.
  /// Which values are better. Required for metrics that are neither losses nor known to metric_by_name().
  std::optional<Choice<MetricMode>> mode = {};
};

/// Keeps the best model of a run: at the end of each epoch whose metric is the best so far, writes the module's state
/// dict, atomically, with the metric, epoch and step in the file's metadata. The first process writes. To resume
/// training use TrainerOptions::checkpoint instead.
class LOCKSTEP_API ModelCheckpoint : public Callback {
 public:
  /// Throws InvalidArgument for an empty path, and for a metric without a known or given mode.
  explicit ModelCheckpoint(const ModelCheckpointOptions& options = {});

  const std::filesystem::path& best_model_path() const noexcept { return options_.path; }  ///< As in the options.
  /// The best value so far. Before the first epoch: +inf for min, -inf for max.
  double best_model_score() const noexcept { return monitor_.best(); }
  /// From 1; 0 before the first best value.
  std::int64_t best_epoch() const noexcept { return monitor_.best_epoch(); }

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
