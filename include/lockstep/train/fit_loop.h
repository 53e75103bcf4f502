// FitLoop: all of Trainer::fit() that does not depend on the types of the module and its batches. For the library.
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
#include <lockstep/optim/schedule.h>
#include <lockstep/train/batches.h>
#include <lockstep/train/checkpoint.h>
#include <lockstep/train/checkpoint_folder.h>
#include <lockstep/train/history.h>
#include <lockstep/train/metrics.h>
#include <lockstep/train/progress.h>
#include <lockstep/train/trainer_options.h>

namespace lockstep::train::detail {

struct ResumePoint;

class LOCKSTEP_API FitLoop {
 public:
  struct Parts {
    nn::ModuleBase& module;
    optim::Optimizer& optimizer;
    optim::Schedule* schedule = nullptr;
    ScheduleStep schedule_step = ScheduleStep::epoch;
    const LoaderHandle& training;
    const LoaderHandle& validation;
    data::BatchShare share = {};              ///< This process's rows of each batch.
    std::span<const std::string> notes = {};  ///< For the history, of what was before.
  };
  /// Forward and backward of the batches of an epoch; calls `step` whenever those of a step are done.
  using TrainEpoch = std::function<void(Metrics& metrics, const std::function<void()>& step)>;
  using Validate = std::function<void(Metrics& metrics)>;

  /// Changes nothing. Throws InvalidArgument for parts that do not fit, in all processes if in one, and for processes
  /// that are to train differently.
  FitLoop(const TrainerOptions& options, Device device, const Parts& parts);

  History run(const TrainEpoch& train_epoch, const Validate& validate);
  /// What run() threw, all processes threw: none waits for this one.
  bool all_threw() const noexcept { return all_threw_; }
  /// What backward is to start from: of float16 gradients, a multiple.
  Tensor scaled(const Tensor& loss) const { return scaler_ ? scaler_->scale(loss) : loss; }

 private:
  using Values = std::vector<History::Value>;
  struct Row {
    ProgressPoint at;
    double seconds = 0;
    double lr = 0;
    std::optional<PendingMeans> means;
  };

  /// As the functions of train/processes.h; `together` notes that all threw.
  std::vector<std::string> together(const char* what, const std::function<std::string()>& f);
  void alike(const char* what, const std::function<std::string()>& f);
  void check_parts() const;
  /// What all processes must have alike, a line each.
  std::string settings() const;
  void open_folder();
  void take_over(const ResumePoint& point);
  void load_parts(const Checkpoint& checkpoint);
  /// The steps of this epoch: those done, and what the batches from `batch` on make.
  void expect_steps_from(std::int64_t batch);
  void step();
  void clip();
  void end_epoch(const Validate& validate);
  std::vector<MeanSum> validated(const Validate& validate);
  void save();
  StateDict collected_metrics();

  Row new_row();
  void finish_row(std::vector<MeanSum> validation = {});
  void check_finite(double loss, std::int64_t step);

  ProgressPoint point() const;
  double seconds() const;
  bool is_last_step_of_epoch() const { return steps_in_epoch_ && step_in_epoch_ >= *steps_in_epoch_; }

  const TrainerOptions& options_;
  const World world_;
  const Device device_;
  const Parts parts_;
  std::optional<std::int64_t> steps_in_epoch_;
  std::optional<CheckpointFolder> folder_;
  std::optional<optim::GradScaler> scaler_;

  std::int64_t epoch_ = 0;  // that are done
  std::int64_t step_ = 0;
  std::int64_t step_in_epoch_ = 0;
  std::int64_t reported_step_ = 0;
  double lr_ = 0;              // of the last step
  double seconds_before_ = 0;  // of the runs that this one goes on from
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Metrics metrics_;
  std::optional<Row> row_;  // whose means are on their way
  History history_;
  bool all_threw_ = false;
  Progress progress_;
};

}  // namespace lockstep::train::detail
