// The part of FitLoop that writes checkpoints and resumes from one. The first process chooses and writes them.
#include <algorithm>
#include <iostream>
#include <sstream>

#include <lockstep/tensor/random.h>
#include <lockstep/train/checkpoint.h>
#include <lockstep/train/fit_loop.h>

#include "core/text.h"
#include "distributed/same_lines.h"
#include "train/processes.h"
#include "train/resume_point.h"

namespace lockstep::train::detail {
namespace {

// Describes the chosen checkpoint to the other processes: its step, and a line for each that was skipped.
std::string described(const ResumePoint& point) {
  std::string lines = text(point.step, '\n');
  for (std::string note : point.passed_over) {
    std::ranges::replace(note, '\n', ' ');
    lines += note + '\n';
  }
  return lines;
}

ResumePoint point_described(const CheckpointFolder& folder, const std::string& description) {
  std::istringstream lines(description);
  std::int64_t step = 0;
  lines >> step;
  lines.ignore();
  ResumePoint point = [&] {
    try {
      return point_at(folder, step);
    } catch (Error& error) {
      error.add_context("the checkpoint that process 0 chose; its folder must be one that all processes see");
      throw;
    }
  }();
  for (std::string note; std::getline(lines, note);) point.passed_over.push_back(note);
  return point;
}

std::string section(const std::string& kind, const std::string& objective) {
  return objective.empty() ? kind : kind + '_' + objective;
}

StateDict state_of(const std::vector<MeanSum>& sums) {
  Metrics metrics{Device()};
  metrics.set_sums(sums);
  return metrics.state_dict();
}

std::vector<History::Value> last_row_of(const History& history) {
  std::vector<History::Value> values;
  for (const std::string& name : history.columns())
    if (const auto& value = history.column(name).back()) values.push_back({name, *value});
  return values;
}

// A text by which the processes check that they have read the same checkpoint: it differs between checkpoints of two
// runs, even of the same step.
std::string mark_of(const ResumePoint& point) {
  return text("a checkpoint of step ", point.step, " after ", exact(point.seconds), " seconds\n");
}

}  // namespace

void FitLoop::save() {
  if (options_.checkpoint.folder.empty()) return;
  finish_row();
  const StateDict sums = collected_metrics();
  Metrics collected{Device()};
  collected.load_state_dict(sums);
  check_finite(collected.sums(), step_);
  Checkpoint checkpoint;
  checkpoint.put("model", parts_.module.state_dict());
  for (std::size_t i = 0; i < parts_.trained.size(); ++i) {
    const TrainedObjective& trained = parts_.trained[i];
    checkpoint.put(section("optimizer", trained.name), trained.optimizer.state_dict());
    if (trained.schedule) checkpoint.put(section("schedule", trained.name), trained.schedule->state_dict());
    if (!scalers_.empty()) checkpoint.put(section("grad_scaler", trained.name), scalers_[i].state_dict());
  }
  if (parts_.plateau) checkpoint.put("plateau", parts_.plateau->state_dict());
  if (const StateDict states = callback_states(); !states.empty()) checkpoint.put("callbacks", states);
  checkpoint.put("loader", parts_.training.state());
  if (parts_.validation.state) checkpoint.put("validation_loader", parts_.validation.state());
  checkpoint.put("random", current_generator());
  checkpoint.put("epoch", epoch_);
  checkpoint.put("step", step_);
  checkpoint.put("step_in_epoch", step_in_epoch_);
  checkpoint.put("reported_step", reported_step_);
  checkpoint.put("seconds", seconds());
  checkpoint.put("metrics", sums);
  if (!epoch_sums_.empty()) checkpoint.put("epoch_metrics", state_of(epoch_sums_));
  checkpoint.put("history", history_.state_dict());
  state_.on_first_process("writing a checkpoint", [&] { folder_->save(step_, checkpoint); });
}

// Adds up the metrics of all processes, returns the sums, and sets them in process 0 only; the other processes start
// again from 0, as in a resumed run. So a run that continues adds later metrics in the same order as a resumed run.
StateDict FitLoop::collected_metrics() {
  if (world_.size() == 1) return metrics_.state_dict();
  metrics_.set_sums(over_all_rows(world_, {.training = metrics_.sums()}).training);
  StateDict all = metrics_.state_dict();
  if (!world_.is_first()) metrics_.set_sums({});
  return all;
}

// Loads all parts or none. Each part checks its state before it changes. The model comes last, since no copy of its old
// values is kept.
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
    const auto take_schedule = [&](auto* schedule, const std::string& name, const char* what) {
      if (schedule)
        take_state(*schedule, checkpoint.tensors(name));
      else if (checkpoint.contains(name))
        throw InvalidArgument(text("[trainer] the checkpoint has state for the ", what,
                                   ", but fit() was given none. Pass the same ", what, " as in the first run"));
    };
    for (std::size_t i = 0; i < parts_.trained.size(); ++i) {
      const TrainedObjective& trained = parts_.trained[i];
      take_state(trained.optimizer, checkpoint.tensors(section("optimizer", trained.name)));
      const std::string scaler = section("grad_scaler", trained.name);
      if (!scalers_.empty() && checkpoint.contains(scaler)) take_state(scalers_[i], checkpoint.tensors(scaler));
      take_schedule(trained.schedule, section("schedule", trained.name), "schedule");
    }
    take_schedule(parts_.plateau, "plateau", "plateau");
    if (checkpoint.contains("callbacks"))
      take([&] { return callback_states(); }, checkpoint.tensors("callbacks"),
           [&](const StateDict& states) { load_callbacks(states); });
    load_model(parts_.module, checkpoint.tensors("model"));
  } catch (...) {
    while (!undo.empty()) undo.back()(), undo.pop_back();
    throw;
  }
}

void FitLoop::open_folder() {
  const CheckpointFolderOptions options = {.keep = options_.checkpoint.keep};
  std::optional<ResumePoint> point;
  const std::string chosen = all_or_throw(world_, "choosing a checkpoint", [&] {
    if (!world_.is_first()) return std::string();
    folder_.emplace(options_.checkpoint.folder, options);
    if (options_.checkpoint.resume) point = newest_intact(*folder_, options_.checkpoint.strict);
    return point ? described(*point) : std::string();
  })[0];
  if (chosen.empty()) return;
  require_equal_in_all(world_, "reading a checkpoint", [&] {
    if (!world_.is_first()) {
      folder_.emplace(options_.checkpoint.folder, options);
      point = point_described(*folder_, chosen);
    }
    return mark_of(*point);
  });
  if (world_.is_first())
    for (const std::string& note : point->passed_over) std::cerr << "[trainer] " + note + '\n';
  all_or_throw(world_, "taking over a checkpoint", [&] {
    resume_from(*point);
    return std::string();
  });
  progress_.note(text("resumed after step ", step_, ", with ", epoch_, '/', options_.max_epochs, " epochs done"));
}

void FitLoop::resume_from(const ResumePoint& point) {
  const Checkpoint& checkpoint = point.checkpoint;
  const auto random = checkpoint.generator("random");  // read first: throws, if it is missing, before the model changes
  const std::int64_t begun = point.epoch + (point.step_in_epoch > 0);
  if (begun > options_.max_epochs)
    throw InvalidArgument(text("[trainer] expected max_epochs of at least ", begun, ", the epochs that checkpoint ",
                               folder_->path(point.step), " has begun, got ", options_.max_epochs));
  metrics_.load_state_dict(checkpoint.tensors("metrics"));
  if (!world_.is_first()) metrics_.set_sums({});
  epoch_sums_.clear();
  if (checkpoint.contains("epoch_metrics")) {
    Metrics sums{Device()};
    sums.load_state_dict(checkpoint.tensors("epoch_metrics"));
    epoch_sums_ = sums.sums();
  }
  history_.load_state_dict(checkpoint.tensors("history"));
  last_values_ = last_row_of(history_);
  for (const std::string& note : point.passed_over) history_.add_note(note);
  load_parts(checkpoint);
  is_resumed_ = true;
  epoch_ = point.epoch;
  step_ = point.step;
  step_in_epoch_ = point.step_in_epoch;
  reported_step_ = point.reported_step;
  seconds_before_ = point.seconds;
  expect_steps_from(checkpoint.loader("loader").batch);
  set_generator(random);
}

}  // namespace lockstep::train::detail
