#include <lockstep/train/fit_loop.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <unordered_set>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/optim/clip.h>
#include <lockstep/tensor/random.h>
#include <lockstep/train/checkpoint.h>

#include "core/text.h"
#include "io/path.h"
#include "tensor/tensor_impl.h"
#include "train/resume_point.h"

namespace lockstep::train::detail {
namespace {

// Gives every module that is still there the training mode that it had.
class ModesKept final : nn::Visitor {
 public:
  explicit ModesKept(nn::ModuleBase& module) : module_(module) { module.visit(nn::Path(), *this); }
  ~ModesKept() {
    gives_back_ = true;
    module_.visit(nn::Path(), *this);
  }
  ModesKept(const ModesKept&) = delete;
  ModesKept& operator=(const ModesKept&) = delete;

 private:
  void module(const nn::Path& path, nn::ModuleBase& module) override {
    const auto [mode, is_new] = modes_.emplace(path.str(), module.is_training());
    if (gives_back_ && !is_new) module.set_mode(mode->second);
  }

  nn::ModuleBase& module_;
  bool gives_back_ = false;
  std::map<std::string, bool> modes_;
};

std::vector<Tensor> parameters_of(const optim::Optimizer& optimizer) {
  std::vector<Tensor> all;
  for (std::size_t g = 0; g < optimizer.group_count(); ++g)
    all.insert(all.end(), optimizer.parameters(g).begin(), optimizer.parameters(g).end());
  return all;
}

// An optimizer of a copy would train nothing, and nobody would notice; nor one whose parameters the module had before
// something else was put in their place. Parameters of something beside the module may be among them.
// But a checkpoint would not have their values.
void check_optimizer(const optim::Optimizer& optimizer, const nn::ModuleBase& module, bool has_folder) {
  std::unordered_set<const TensorImpl*> there;
  for (const Tensor& parameter : module.parameters()) there.insert(parameter.impl());
  bool any = false;
  for (std::size_t g = 0; g < optimizer.group_count(); ++g)
    for (const Tensor& parameter : optimizer.parameters(g)) {
      const bool trained = there.contains(parameter.impl());
      any = any || trained;
      if (!trained && has_folder)
        throw InvalidArgument(
            text("[trainer] expected, for checkpoints, an optimizer of the module's parameters alone, "
                 "got one of shape ",
                 parameter.sizes(), " beside them: make it a member"));
      if (!trained && parameter.impl()->references == 1)
        throw InvalidArgument(text("[trainer] expected an optimizer of parameters that somebody has, got one of shape ",
                                   parameter.sizes(),
                                   " that the module lost before: make the optimizer after the module is complete"));
    }
  if (!any) throw InvalidArgument("[trainer] expected an optimizer of the module's parameters, got one of others");
}

void check_loader(const LoaderHandle& training, bool has_folder) {
  if (training.size && training.size() == 0)
    throw InvalidArgument("[trainer] expected a loader of at least one batch, got none");
  if (has_folder && !(training.size && training.state))
    throw InvalidArgument("[trainer] expected a loader with size(), state() and load_state() for checkpoints");
}

void check_folder(const CheckpointOptions& options) {
  check_path("trainer", options.folder);
  if (options.folder.empty() || options.resume) return;
  if (const auto found = latest_checkpoint(options.folder))
    throw InvalidArgument(text("[trainer] expected .resume = true or a folder without checkpoints, got ", *found));
}

bool divides(std::int64_t every, std::int64_t count) { return every > 0 && count % every == 0; }

// The loss first.
std::vector<History::Value> named(const std::string& prefix, const std::vector<Mean>& means) {
  std::vector<History::Value> values;
  for (const Mean& mean : means) values.push_back({prefix + mean.name, mean.value});
  std::ranges::stable_partition(values, [&](const History::Value& value) { return value.column == prefix + "loss"; });
  return values;
}

}  // namespace

FitLoop::FitLoop(const TrainerOptions& options, Device device, const Parts& parts)
    : options_(options), device_(device), parts_(parts), metrics_(device), progress_(options.progress) {
  check_optimizer(parts.optimizer, parts.module, !options.checkpoint.folder.empty());
  check_loader(parts.training, !options.checkpoint.folder.empty());
  check_folder(options.checkpoint);
  if (parts.schedule && &parts.schedule->optimizer() != &parts.optimizer)
    throw InvalidArgument("[trainer] expected a schedule of the optimizer that trains, got one of another");
  if (options.precision == Precision::float16) scaler_.emplace();
  expect_steps_from(0);
}

void FitLoop::expect_steps_from(std::int64_t batch) {
  if (!parts_.training.size) return;
  const std::int64_t left = parts_.training.size() - batch;
  steps_in_epoch_ = step_in_epoch_ + left / options_.accumulate + (left % options_.accumulate != 0);
}

History FitLoop::run(const TrainEpoch& train_epoch, const Validate& validate) {
  if (!options_.checkpoint.folder.empty()) {
    folder_.emplace(options_.checkpoint.folder, CheckpointFolderOptions{.keep = options_.checkpoint.keep});
    if (options_.checkpoint.resume) resume();
    for (const std::string& note : parts_.notes) history_.add_note(note);
  }
  const ModesKept modes(parts_.module);
  if (!parts_.module.is_training()) parts_.module.train();
  parts_.optimizer.zero_grad();
  while (epoch_ < options_.max_epochs) {
    train_epoch(metrics_, [this] { step(); });
    if (step_in_epoch_ == 0)
      throw InvalidArgument(
          text("[trainer] expected a loader that begins anew in each epoch, got no batch in epoch ", epoch_ + 1));
    end_epoch(validate);
  }
  return std::move(history_);
}

void FitLoop::step() {
  clip();
  lr_ = parts_.optimizer.lr();
  if (scaler_) {
    scaler_->step(parts_.optimizer);
    scaler_->update();
  } else {
    parts_.optimizer.step();
  }
  parts_.optimizer.zero_grad();
  ++step_;
  ++step_in_epoch_;
  finish_row();  // of the step before: the devices have this step to do meanwhile
  if (divides(options_.log_every, step_) && !is_last_step_of_epoch()) row_ = new_row();
  if (parts_.schedule && parts_.schedule_step == ScheduleStep::step) parts_.schedule->step();
  progress_.step(point());
  if (divides(options_.checkpoint.every_steps, step_) && !is_last_step_of_epoch()) save();
}

void FitLoop::clip() {
  if (options_.gradient_clip_val == 0) return;
  if (scaler_) scaler_->unscale_(parts_.optimizer);
  const std::vector<Tensor> parameters = parameters_of(parts_.optimizer);
  if (options_.gradient_clip_algorithm == GradientClip::norm)
    optim::clip_grad_norm_(parameters, options_.gradient_clip_val);
  else
    optim::clip_grad_value_(parameters, options_.gradient_clip_val);
}

void FitLoop::end_epoch(const Validate& validate) {
  finish_row();
  row_ = new_row();
  row_->at.ends_epoch = true;
  finish_row(validated(validate));
  if (parts_.schedule && parts_.schedule_step == ScheduleStep::epoch) parts_.schedule->step();
  ++epoch_;
  step_in_epoch_ = 0;
  expect_steps_from(0);
  if (epoch_ == options_.max_epochs || divides(options_.checkpoint.every_epochs, epoch_) ||
      divides(options_.checkpoint.every_steps, step_))
    save();
}

std::vector<Mean> FitLoop::validated(const Validate& validate) {
  if (!validate) return {};
  const ModesKept modes(parts_.module);
  parts_.module.eval();
  const NoGrad guard;
  Metrics metrics(device_);
  validate(metrics);
  return metrics.empty() ? std::vector<Mean>() : metrics.take().wait();
}

FitLoop::Row FitLoop::new_row() {
  const ProgressPoint at = point();
  return {.at = at,
          .place = {{"epoch", double(at.epoch)},
                    {"step", double(at.step)},
                    {"seconds", std::round(seconds() * 1000) / 1000},
                    {"lr", lr_}},
          .means = metrics_.empty() ? std::nullopt : std::optional(metrics_.take())};
}

void FitLoop::finish_row(const std::vector<Mean>& validation) {
  if (!row_) return;
  const Row row = *std::exchange(row_, std::nullopt);
  Values values = row.means ? named("train_", row.means->wait()) : Values();
  if (!values.empty()) check_finite(values.front().value, row.at.step);
  for (History::Value& value : named("validation_", validation)) values.push_back(std::move(value));
  if (!values.empty()) {
    Values all = row.place;
    all.insert(all.end(), values.begin(), values.end());
    history_.add_row(all);
  }
  reported_step_ = row.at.step;
  progress_.report(row.at, values);
}

void FitLoop::check_finite(double loss, std::int64_t step) const {
  if (options_.stop_if_not_finite && !std::isfinite(loss)) throw Diverged(loss, reported_step_, step);
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

void FitLoop::save() {
  if (!folder_) return;
  finish_row();
  const StateDict sums = metrics_.state_dict();
  if (const Tensor* loss = sums.find("loss")) check_finite(loss->select(0, 0).item<double>(), step_);
  Checkpoint checkpoint;
  checkpoint.put("model", parts_.module.state_dict());
  checkpoint.put("optimizer", parts_.optimizer.state_dict());
  if (parts_.schedule) checkpoint.put("schedule", parts_.schedule->state_dict());
  if (scaler_) checkpoint.put("grad_scaler", scaler_->state_dict());
  checkpoint.put("loader", parts_.training.state());
  if (parts_.validation.state) checkpoint.put("validation_loader", parts_.validation.state());
  checkpoint.put("random", current_generator());
  checkpoint.put("epoch", epoch_);
  checkpoint.put("step", step_);
  checkpoint.put("step_in_epoch", step_in_epoch_);
  checkpoint.put("reported_step", reported_step_);
  checkpoint.put("seconds", seconds());
  checkpoint.put("metrics", sums);
  checkpoint.put("history", history_.state_dict());
  folder_->save(step_, checkpoint);
}

// All of it or nothing. Each checks before it changes; the model comes last, since its values are not kept twice.
void FitLoop::load_parts(const Checkpoint& checkpoint) {
  std::vector<std::function<void()>> undo;
  const auto take = [&](const auto& now, const auto& then, const auto& load) {
    const auto before = now();
    load(then);
    undo.push_back([before, load] { load(before); });
  };
  const auto take_loader = [&](const LoaderHandle& handle, const data::LoaderState& state) {
    take(handle.state, state, handle.load_state);
  };
  const auto take_state = [&](auto& part, const StateDict& state) {
    take([&] { return part.state_dict(); }, state, [&part](const StateDict& given) { part.load_state_dict(given); });
  };
  try {
    take_loader(parts_.training, checkpoint.loader("loader"));
    if (parts_.validation.load_state && checkpoint.contains("validation_loader"))
      take_loader(parts_.validation, checkpoint.loader("validation_loader"));
    take_state(parts_.optimizer, checkpoint.tensors("optimizer"));
    if (scaler_ && checkpoint.contains("grad_scaler")) take_state(*scaler_, checkpoint.tensors("grad_scaler"));
    if (parts_.schedule)
      take_state(*parts_.schedule, checkpoint.tensors("schedule"));
    else if (checkpoint.contains("schedule"))
      throw InvalidArgument("[trainer] expected the schedule that the checkpoint goes on with, got none");
    load_model(parts_.module, checkpoint.tensors("model"));
  } catch (...) {
    while (!undo.empty()) undo.back()(), undo.pop_back();
    throw;
  }
}

void FitLoop::resume() {
  const auto point = newest_intact(*folder_, options_.checkpoint.strict);
  if (!point) return;
  for (const std::string& note : point->passed_over) std::cerr << "[trainer] " + note + '\n';
  take_over(*point);
}

void FitLoop::take_over(const ResumePoint& point) {
  const Checkpoint& checkpoint = point.checkpoint;
  const auto random = checkpoint.generator("random");  // found missing, if it is, before the model changes
  const std::int64_t begun = point.epoch + (point.step_in_epoch > 0);
  if (begun > options_.max_epochs)
    throw InvalidArgument(text("[trainer] expected max_epochs of at least ", begun, ", the epochs that checkpoint ",
                               folder_->path(point.step), " has begun, got ", options_.max_epochs));
  metrics_.load_state_dict(checkpoint.tensors("metrics"));
  history_.load_state_dict(checkpoint.tensors("history"));
  for (const std::string& note : point.passed_over) history_.add_note(note);
  load_parts(checkpoint);
  epoch_ = point.epoch;
  step_ = point.step;
  step_in_epoch_ = point.step_in_epoch;
  reported_step_ = point.reported_step;
  seconds_before_ = point.seconds;
  expect_steps_from(checkpoint.loader("loader").batch);
  set_generator(random);
  progress_.note(text("resumed after step ", step_, ", with ", epoch_, '/', options_.max_epochs, " epochs done"));
}

}  // namespace lockstep::train::detail
