#include "train/resume_point.h"

#include <cmath>
#include <exception>
#include <utility>

#include "core/failures.h"
#include "core/text.h"

namespace lockstep::train::detail {
namespace {

// Numbers that contradict each other count as damage too: a damaged file may have no checksums, and a file may have
// been renamed to another step.
void check(const std::string& file, bool holds, const auto&... reason) {
  if (!holds) throw FormatError(file, 0, text(reason...));
}

ResumePoint point_in(const std::string& file, std::int64_t step, Checkpoint checkpoint) {
  ResumePoint at{.checkpoint = std::move(checkpoint)};
  at.epoch = at.checkpoint.integer("epoch");
  at.step = at.checkpoint.integer("step");
  at.step_in_epoch = at.checkpoint.integer("step_in_epoch");
  at.reported_step = at.checkpoint.integer("reported_step");
  at.seconds = at.checkpoint.number("seconds");
  const data::LoaderState loader = at.checkpoint.loader("loader");
  check(file, at.step == step, "expected step ", step, " as in its name, got ", at.step);
  check(file, at.step_in_epoch >= 0 && at.step_in_epoch <= step, "expected a step_in_epoch from 0 to step ", step,
        ", got ", at.step_in_epoch);
  const std::int64_t before = step - at.step_in_epoch;  // each epoch has at least one step
  check(file, at.epoch >= 0 && at.epoch <= before, "expected an epoch from 0 to ", before, " after ", before,
        " steps, got ", at.epoch);
  check(file, at.reported_step >= 0 && at.reported_step <= step, "expected a reported_step from 0 to step ", step,
        ", got ", at.reported_step);
  check(file, std::isfinite(at.seconds) && at.seconds >= 0, "expected seconds of at least 0, got ", at.seconds);
  // Epoch 0 is accepted, because a loader that a user has written need not count epochs.
  check(file, loader.epoch == 0 || loader.epoch >= at.epoch, "expected a loader after at least ", at.epoch,
        " epochs, got ", loader.epoch);
  return at;
}

// The damaged checkpoints found, newest first.
class Damaged {
 public:
  explicit Damaged(bool strict) : strict_(strict) {}

  /// Call this in the handler of the error. Rethrows the error if strict.
  void add(const Error& error) {
    if (strict_) throw;
    errors_.push_back(std::current_exception());
    lines.push_back(text("passed over a damaged checkpoint: ", error.what()));
  }
  /// Throws the error of the newest one, if any, with the others attached.
  void throw_all() const {
    if (!errors_.empty()) throw_first(errors_);
  }

  std::vector<std::string> lines;

 private:
  bool strict_;
  std::vector<std::exception_ptr> errors_;
};

std::optional<Checkpoint> loaded(const CheckpointFolder& folder, std::int64_t step, Damaged& damaged) {
  try {
    return folder.load(step);
  } catch (const FormatError& error) {
    damaged.add(error);
  } catch (const IoError& error) {
    damaged.add(error);
  } catch (const InvalidArgument& error) {  // not a regular file
    damaged.add(error);
  }
  return {};
}

}  // namespace

std::optional<ResumePoint> newest_intact(const CheckpointFolder& folder, bool strict) {
  Damaged damaged(strict);
  const std::vector<std::int64_t> steps = folder.steps();
  for (const std::int64_t step : std::vector(steps.rbegin(), steps.rend())) {
    auto checkpoint = loaded(folder, step, damaged);
    if (!checkpoint) continue;
    try {
      ResumePoint point = point_in(folder.path(step).string(), step, *std::move(checkpoint));
      point.passed_over = std::move(damaged.lines);
      return point;
    } catch (const FormatError& error) {
      damaged.add(error);
    }
  }
  damaged.throw_all();
  return {};
}

ResumePoint point_at(const CheckpointFolder& folder, std::int64_t step) {
  return point_in(folder.path(step).string(), step, folder.load(step));
}

}  // namespace lockstep::train::detail
