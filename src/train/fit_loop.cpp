#include <lockstep/train/fit_loop.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/optim/clip.h>
#include <lockstep/train/criterion.h>

#include "core/text.h"
#include "distributed/same_lines.h"
#include "nn/training_mode_guard.h"
#include "train/fit_parts.h"
#include "train/processes.h"

namespace lockstep::train::detail {
namespace {

bool divides(std::int64_t every, std::int64_t count) { return every > 0 && count % every == 0; }

// Returns the means as values of the history, the losses first.
std::vector<History::Value> named(const std::string& prefix, std::vector<Mean> means,
                                  const std::vector<std::string>& losses) {
  std::ranges::stable_sort(means, {}, [&](const Mean& mean) { return std::ranges::find(losses, mean.name); });
  std::vector<History::Value> values;
  for (const Mean& mean : means) values.push_back({prefix + mean.name, mean.value});
  return values;
}

}  // namespace

FitLoop::FitLoop(const TrainerOptions& options, Device device, const Parts& parts)
    : options_(options),
      world_(options.parallel.world),
      device_(device),
      parts_(parts),
      state_(*this),
      metrics_(device),
      progress_(world_.is_first() ? options.progress : ProgressOptions{.out = nullptr}) {
  for (const TrainedObjective& trained : parts.trained) losses_.push_back(name_of_loss(trained.name));
  require_equal_in_all(world_, "the beginning of training", [this] {
    check_parts();
    return settings();
  });
  if (options.precision == Precision::float16) scalers_.resize(parts.trained.size());
  expect_steps_from(0);
}

void FitLoop::check_parts() const {
  std::set<std::string> names;
  for (const TrainedObjective& trained : parts_.trained) {
    check_optimizer(trained.optimizer, parts_.module, !options_.checkpoint.folder.empty());
    if (!names.insert(trained.name).second || trained.name.find('.') != std::string::npos)
      throw InvalidArgument(
          text("[trainer] expected different names without a dot in .also, got \"", trained.name, '"'));
  }
  check_loader(parts_.training, !options_.checkpoint.folder.empty());
  check_share(parts_.training, parts_.share);
  check_share(parts_.validation, parts_.share);
  check_folder(options_.checkpoint);
  check_schedules();
  check_callbacks();
}

void FitLoop::check_schedules() const {
  for (const TrainedObjective& trained : parts_.trained)
    if (trained.schedule && &trained.schedule->optimizer() != &trained.optimizer)
      throw InvalidArgument(
          "[trainer] the schedule was made for another optimizer. Make it from the one in .optimizer");
  if (!parts_.plateau) return;
  const TrainedObjective& first = parts_.trained.front();
  if (&parts_.plateau->optimizer() != &first.optimizer)
    throw InvalidArgument("[trainer] the plateau was made for another optimizer. Make it from the one in .optimizer");
  if (first.schedule)
    throw InvalidArgument(
        "[trainer] expected .schedule or .plateau, got both, and each sets the learning rate: give one");
  if (const auto mode = known_mode(parts_.plateau_monitor); mode && *mode != parts_.plateau->mode())
    throw InvalidArgument(text("[trainer] expected a plateau with .mode = optim::MetricMode::",
                               *mode == optim::MetricMode::min ? "min" : "max", " to monitor ", parts_.plateau_monitor,
                               ", got the other mode"));
  if (parts_.plateau_monitor.starts_with("validation_") && !parts_.has_validation)
    throw InvalidArgument(
        text("[trainer] .plateau_monitor is ", parts_.plateau_monitor,
             ", but fit() was given no .validation loader. Give one, or monitor a metric of training"));
}

std::string FitLoop::settings() const {
  const auto batches = [](const LoaderHandle& loader) { return loader.size ? loader.size() : -1; };
  const CheckpointOptions& kept = options_.checkpoint;
  std::string also = "none", callbacks = "none";
  for (std::size_t i = 1; i < parts_.trained.size(); ++i) also += text(", ", parts_.trained[i].name);
  for (const Callback& callback : parts_.callbacks) callbacks += text(", ", callback.name());
  return text("devices ", parts_.share.devices, "\nmax_epochs ", options_.max_epochs, "\naccumulate ",
              options_.accumulate, "\nbatches in an epoch ", batches(parts_.training), "\nbatches of validation ",
              batches(parts_.validation), "\nlog_every ", options_.log_every, "\nprecision ", int(options_.precision),
              "\ngradient_clip_val ", exact(options_.gradient_clip_val), "\ngradient_clip_algorithm ",
              int(options_.gradient_clip_algorithm), "\nstop_if_not_finite ", options_.stop_if_not_finite,
              "\ncheckpoints ", !kept.folder.empty(), "\ncheckpoint.every_steps ", kept.every_steps,
              "\ncheckpoint.every_epochs ", kept.every_epochs, "\ncheckpoint.resume ", kept.resume, "\nschedules ",
              parts_.trained.front().schedule != nullptr, "\nschedule_step ", int(parts_.schedule_step), "\nplateau ",
              parts_.plateau ? parts_.plateau_monitor : "none", "\nalso ", also, "\ncallbacks ", callbacks, '\n');
}

void FitLoop::expect_steps_from(std::int64_t batch) {
  if (!parts_.training.size) return;
  const std::int64_t left = parts_.training.size() - batch;
  steps_in_epoch_ = step_in_epoch_ + left / options_.accumulate + (left % options_.accumulate != 0);
}

History FitLoop::run(const TrainEpoch& train_epoch, const Validate& validate) {
  broadcast_generator(world_);
  if (!options_.checkpoint.folder.empty()) {
    open_folder();
    for (const std::string& note : parts_.notes) history_.add_note(note);
  }
  const nn::TrainingModeGuard modes(parts_.module);
  if (!parts_.module.is_training()) parts_.module.train();
  for (const TrainedObjective& trained : parts_.trained) trained.optimizer.zero_grad();
  running_epoch_ = epoch_ + 1;
  call_callbacks(&Callback::on_fit_begin);
  agree_to_stop();
  const StepHooks hooks = {.begin = [this] { call_callbacks(&Callback::on_step_begin); },
                           .update = [this](std::size_t objective, const Tensor& factor) { update(objective, factor); },
                           .end = [this] { return end_step(); }};
  while (epoch_ < options_.max_epochs && !is_stopping_) {
    running_epoch_ = epoch_ + 1;
    call_callbacks(&Callback::on_epoch_begin);
    train_epoch(metrics_, hooks);
    if (step_in_epoch_ == 0)
      throw InvalidArgument(text("[trainer] the loader has no batches in epoch ", epoch_ + 1,
                                 ". Use a loader that can be iterated again, such as data::DataLoader"));
    if (is_stopping_ && !is_last_step_of_epoch())
      end_early();
    else
      end_epoch(validate);
  }
  if (is_stopping_)
    progress_.note(text("stopped ", step_in_epoch_ > 0 ? text("in epoch ", epoch_ + 1) : text("after epoch ", epoch_),
                        ", step ", step_, ": ", stop_reason_));
  call_callbacks(&Callback::on_fit_end);
  return std::move(history_);
}

void FitLoop::update(std::size_t objective, const Tensor& factor) {
  optim::Optimizer& optimizer = parts_.trained[objective].optimizer;
  if (factor.defined()) optim::scale_grad_(parameters_of(optimizer), factor);
  clip(objective);
  if (objective == 0) lr_ = optimizer.lr();
  if (scalers_.empty()) {
    optimizer.step();
  } else {
    scalers_[objective].step(optimizer);
    scalers_[objective].update();
  }
  // the loss of one objective may compute gradients of the parameters of another one
  for (const TrainedObjective& trained : parts_.trained) trained.optimizer.zero_grad();
}

bool FitLoop::end_step() {
  ++step_;
  ++step_in_epoch_;
  finish_row();  // of the previous step, while the devices work on this one
  if (divides(options_.log_every, step_) && !is_last_step_of_epoch()) row_ = new_row();
  step_schedules(ScheduleStep::step);
  progress_.step(point());
  call_callbacks(&Callback::on_step_end);
  if (world_.size() == 1) is_stopping_ = asks_to_stop_;
  if (divides(options_.checkpoint.every_steps, step_) && !is_last_step_of_epoch()) save();
  return !is_stopping_ || is_last_step_of_epoch();
}

void FitLoop::step_schedules(ScheduleStep turn) {
  if (parts_.schedule_step != turn) return;
  for (const TrainedObjective& trained : parts_.trained)
    if (trained.schedule) trained.schedule->step();
}

void FitLoop::clip(std::size_t objective) {
  if (options_.gradient_clip_val == 0) return;
  optim::Optimizer& optimizer = parts_.trained[objective].optimizer;
  if (!scalers_.empty()) scalers_[objective].unscale_(optimizer);
  clip_gradients(options_, optimizer);
}

void FitLoop::end_epoch(const Validate& validate) {
  finish_row();
  row_ = new_row();
  row_->at.ends_epoch = true;
  finish_row(validated(validate));
  if (validate) call_callbacks(&Callback::on_validation_end);
  call_callbacks(&Callback::on_epoch_end);
  if (parts_.plateau) parts_.plateau->step(state_.metric(parts_.plateau_monitor));
  step_schedules(ScheduleStep::epoch);
  ++epoch_;
  step_in_epoch_ = 0;
  epoch_sums_.clear();
  expect_steps_from(0);
  agree_to_stop();
  if (epoch_ == options_.max_epochs || is_stopping_ || divides(options_.checkpoint.every_epochs, epoch_) ||
      divides(options_.checkpoint.every_steps, step_))
    save();
}

// The checkpoint must equal the one that a run without an early end would save at this step. Such a run would not yet
// add a row to the history. So the checkpoint is saved first, then the row of the steps since the last row is added.
void FitLoop::end_early() {
  save();
  finish_row();
  row_ = new_row();
  finish_row();
}

std::vector<MeanSum> FitLoop::validated(const Validate& validate) {
  if (!validate) return {};
  call_callbacks(&Callback::on_validation_begin);
  const nn::TrainingModeGuard modes(parts_.module);
  parts_.module.eval();
  const NoGrad guard;
  Metrics metrics(device_);
  std::int64_t batch = 0;
  progress_.begin_validation();
  const std::optional<std::int64_t> batches =
      parts_.validation.size ? std::optional(parts_.validation.size()) : std::nullopt;
  validate(metrics, [&] { progress_.validation(point(), ++batch, batches); });
  auto sums = metrics.empty() ? std::vector<MeanSum>() : metrics.snapshot_and_reset().wait_for_sums();
  progress_.end_validation();
  return sums;
}

FitLoop::Row FitLoop::new_row() {
  return {.at = point(),
          .seconds = std::round(seconds() * 1000) / 1000,
          .lr = lr_,
          .means = metrics_.empty() ? std::nullopt : std::optional(metrics_.snapshot_and_reset())};
}

void FitLoop::finish_row(std::vector<MeanSum> validation) {
  if (!row_) return;
  const Row row = *std::exchange(row_, std::nullopt);
  Report report = over_all_rows(world_, {.seconds = row.seconds,
                                         .training = row.means ? row.means->wait_for_sums() : std::vector<MeanSum>(),
                                         .validation = std::move(validation),
                                         .asks_to_stop = asks_to_stop_});
  is_stopping_ = is_stopping_ || report.asks_to_stop;
  check_finite(report.training, row.at.step);
  add_sums(epoch_sums_, report.training);
  Values values = named("train_", means_of(row.at.ends_epoch ? epoch_sums_ : report.training), losses_);
  for (History::Value& value : named("validation_", means_of(report.validation), losses_))
    values.push_back(std::move(value));
  if (!values.empty()) {
    Values all = {
        {"epoch", double(row.at.epoch)}, {"step", double(row.at.step)}, {"seconds", report.seconds}, {"lr", row.lr}};
    all.insert(all.end(), values.begin(), values.end());
    history_.add_row(all);
    last_values_ = std::move(all);
  }
  reported_step_ = row.at.step;
  progress_.report(row.at, values);
}

void FitLoop::check_finite(const std::vector<MeanSum>& sums, std::int64_t step) {
  if (!options_.stop_if_not_finite) return;
  for (const std::string& name : losses_) {
    const auto loss = std::ranges::find(sums, name, &MeanSum::name);
    if (loss == sums.end() || loss->weight == 0 || std::isfinite(loss->total / loss->weight)) continue;
    world_.throw_on_all(  // all processes have this mean, so all of them throw
        std::make_exception_ptr(Diverged(loss->total / loss->weight, reported_step_, step)));
  }
}

ProgressPoint FitLoop::point() const {
  return {.epoch = epoch_ + 1,
          .epochs = options_.max_epochs,
          .step = step_,
          .step_in_epoch = step_in_epoch_,
          .steps_in_epoch = steps_in_epoch_};
}

double FitLoop::seconds() const {
  return seconds_before_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace lockstep::train::detail
