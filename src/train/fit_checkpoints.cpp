// How FitLoop writes checkpoints, and goes on from one. Of several processes the first one chooses and writes.
#include <algorithm>
#include <charconv>
#include <iostream>
#include <sstream>
#include <utility>

#include <lockstep/tensor/random.h>
#include <lockstep/train/checkpoint.h>
#include <lockstep/train/fit_loop.h>

#include "core/text.h"
#include "train/processes.h"
#include "train/resume_point.h"

namespace lockstep::train::detail {
namespace {

// What process 0 tells the others of the checkpoint it chose: the step, and a line for each that it passed over.
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

// Tells two checkpoints of one step apart.
std::string mark_of(const ResumePoint& point) {
  char digits[32];
  const auto end = std::to_chars(digits, std::end(digits), point.seconds).ptr;
  return text("a checkpoint of step ", point.step, " after ", std::string(digits, end), " seconds\n");
}

}  // namespace

void FitLoop::save() {
  if (options_.checkpoint.folder.empty()) return;
  finish_row();
  const StateDict sums = collected_metrics();
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
  together("writing a checkpoint", [&] {
    if (world_.is_first()) folder_->save(step_, checkpoint);
    return std::string();
  });
}

// Over all processes. They are process 0's from then on, so that a run that goes on from the checkpoint adds to them in
// the same order.
StateDict FitLoop::collected_metrics() {
  if (world_.size() == 1) return metrics_.state_dict();
  metrics_.set_sums(over_all_rows(world_, {.training = metrics_.sums()}).training);
  StateDict all = metrics_.state_dict();
  if (!world_.is_first()) metrics_.set_sums({});
  return all;
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

void FitLoop::open_folder() {
  const CheckpointFolderOptions options = {.keep = options_.checkpoint.keep};
  std::optional<ResumePoint> point;
  const std::string chosen = together("choosing a checkpoint", [&] {
    if (!world_.is_first()) return std::string();
    folder_.emplace(options_.checkpoint.folder, options);
    if (options_.checkpoint.resume) point = newest_intact(*folder_, options_.checkpoint.strict);
    return point ? described(*point) : std::string();
  })[0];
  if (chosen.empty()) return;
  alike("reading a checkpoint", [&] {
    if (!world_.is_first()) {
      folder_.emplace(options_.checkpoint.folder, options);
      point = point_described(*folder_, chosen);
    }
    return mark_of(*point);
  });
  if (world_.is_first())
    for (const std::string& note : point->passed_over) std::cerr << "[trainer] " + note + '\n';
  together("taking over a checkpoint", [&] {
    take_over(*point);
    return std::string();
  });
  progress_.note(text("resumed after step ", step_, ", with ", epoch_, '/', options_.max_epochs, " epochs done"));
}

void FitLoop::take_over(const ResumePoint& point) {
  const Checkpoint& checkpoint = point.checkpoint;
  const auto random = checkpoint.generator("random");  // found missing, if it is, before the model changes
  const std::int64_t begun = point.epoch + (point.step_in_epoch > 0);
  if (begun > options_.max_epochs)
    throw InvalidArgument(text("[trainer] expected max_epochs of at least ", begun, ", the epochs that checkpoint ",
                               folder_->path(point.step), " has begun, got ", options_.max_epochs));
  metrics_.load_state_dict(checkpoint.tensors("metrics"));
  if (!world_.is_first()) metrics_.set_sums({});
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
}

}  // namespace lockstep::train::detail
