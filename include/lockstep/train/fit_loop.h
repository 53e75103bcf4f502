// FitLoop: the part of Trainer::fit() that does not depend on the types of the module and its batches. For the library.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/nn/module.h>
#include <lockstep/optim/grad_scaler.h>
#include <lockstep/optim/optimizer.h>
#include <lockstep/optim/reduce_lr_on_plateau.h>
#include <lockstep/optim/schedule.h>
#include <lockstep/report/history.h>
#include <lockstep/train/batches.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/checkpoint.h>
#include <lockstep/train/checkpoint_folder.h>
#include <lockstep/train/metrics.h>
#include <lockstep/train/progress.h>
#include <lockstep/train/trainer_options.h>

namespace lockstep::train::detail {

struct ResumePoint;

/// The functions that Passes::train() calls in each step.
struct StepHooks {
  std::function<void()> begin;
  /// Called after an objective's gradients were computed. It must multiply them by `factor`, if that is defined.
  std::function<void(std::size_t objective, const Tensor& factor)> update;
  std::function<bool()> end;  ///< Returns false to end training.
};

/// The name of the mean of an objective's losses.
inline std::string name_of_loss(const std::string& objective) {
  return objective.empty() ? "loss" : objective + "_loss";
}

class LOCKSTEP_API FitLoop {
 public:
  /// One objective: an optimizer, and its schedule.
  struct TrainedObjective {
    std::string name;  ///< Empty for the first objective.
    optim::Optimizer& optimizer;
    optim::Schedule* schedule = nullptr;
  };
  struct Parts {
    nn::ModuleBase& module;
    std::vector<TrainedObjective> trained;  ///< At least one.
    ScheduleStep schedule_step = ScheduleStep::epoch;
    optim::ReduceLROnPlateau* plateau = nullptr;
    std::string plateau_monitor = {};
    const LoaderHandle& training;
    const LoaderHandle& validation;
    bool has_validation = false;
    Callbacks callbacks = {};
    data::BatchShare share = {};              ///< This process's rows of each batch.
    std::span<const std::string> notes = {};  ///< For the history: events before this attempt.
  };
  using TrainEpoch = std::function<void(Metrics& metrics, const StepHooks& hooks)>;
  /// Runs the validation batches, adds their means to `metrics`, and calls `next` after each batch.
  using Validate = std::function<void(Metrics& metrics, const std::function<void()>& next)>;

  /// Checks the parts, and changes nothing. Throws InvalidArgument in all processes if the parts of one process do not
  /// fit together, or if the settings of the processes differ.
  FitLoop(const TrainerOptions& options, Device device, const Parts& parts);

  History run(const TrainEpoch& train_epoch, const Validate& validate);
  /// The root of backward: the loss, times the scale of the GradScaler for float16.
  Tensor scaled(const Tensor& loss, std::size_t objective) const {
    return scalers_.empty() ? loss : scalers_[objective].scale(loss);
  }

 private:
  friend class train::FitState;
  using Values = std::vector<History::Value>;
  struct Row {
    ProgressPoint at;
    double seconds = 0;
    double lr = 0;
    std::optional<PendingMeans> means;
  };

  void check_parts() const;
  void check_schedules() const;
  void check_callbacks() const;
  /// The settings that must be equal in all processes, a line each.
  std::string settings() const;
  void open_folder();
  void resume_from(const ResumePoint& point);
  void load_parts(const Checkpoint& checkpoint);
  /// Sets steps_in_epoch_ to the steps done in this epoch plus the steps for the batches from index `batch` on.
  void expect_steps_from(std::int64_t batch);
  void update(std::size_t objective, const Tensor& factor);
  void clip(std::size_t objective);
  bool end_step();
  void end_epoch(const Validate& validate);
  /// Ends training in the middle of an epoch.
  void end_early();
  void step_schedules(ScheduleStep turn);
  std::vector<MeanSum> validated(const Validate& validate);
  void call_callbacks(void (Callback::*turn)(FitState&));
  /// Sets is_stopping_ if a callback of any process requested it. If there are callbacks, the processes exchange once.
  void agree_to_stop();
  void save();
  StateDict collected_metrics();
  StateDict callback_states() const;
  void load_callbacks(const StateDict& states);

  Row new_row();
  void finish_row(std::vector<MeanSum> validation = {});
  void check_finite(const std::vector<MeanSum>& sums, std::int64_t step);

  ProgressPoint point() const;
  double seconds() const;
  bool is_last_step_of_epoch() const { return steps_in_epoch_ && step_in_epoch_ >= *steps_in_epoch_; }

  const TrainerOptions& options_;
  const World world_;
  const Device device_;
  const Parts parts_;
  FitState state_;
  std::vector<std::string> losses_;  // the names of the objectives' mean losses in metrics_
  std::optional<std::int64_t> steps_in_epoch_;
  std::optional<CheckpointFolder> folder_;
  std::vector<optim::GradScaler> scalers_;  // for float16, one per objective; else empty

  std::int64_t epoch_ = 0;  // epochs done
  std::int64_t step_ = 0;
  std::int64_t step_in_epoch_ = 0;
  std::int64_t reported_step_ = 0;
  double lr_ = 0;              // of the latest step
  double seconds_before_ = 0;  // of the earlier runs that this one continues
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Metrics metrics_;
  std::vector<MeanSum> epoch_sums_;  // over the rows of all processes, in this epoch
  std::optional<Row> row_;           // the row whose means are still on their way to the host
  Values last_values_;               // of the latest row
  History history_;
  std::int64_t running_epoch_ = 1;
  bool is_resumed_ = false;
  bool asks_to_stop_ = false;  // a callback of this process called stop()
  std::string stop_reason_ = "a callback of another process asked for it";
  bool is_stopping_ = false;  // all processes have agreed to end training
  Progress progress_;
};

}  // namespace lockstep::train::detail
