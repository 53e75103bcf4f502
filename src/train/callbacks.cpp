#include <lockstep/train/callbacks.h>

#include <cmath>
#include <limits>
#include <utility>

#include <lockstep/io/safetensors.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/train/criterion.h>

#include "core/expect.h"
#include "core/text.h"
#include "distributed/same_lines.h"

namespace lockstep::train {
namespace {

StateDict state_of_numbers(std::initializer_list<std::pair<const char*, double>> numbers) {
  StateDict state;
  for (const auto& [key, value] : numbers) state.add(key, from_host(&value, 1, kFloat64, {}));
  return state;
}

// Returns the numbers under these keys. Throws InvalidArgument if one is missing, or if there are others.
std::vector<double> numbers_of_state(const StateDict& state, std::initializer_list<const char*> keys,
                                     const std::string& name) {
  std::vector<double> numbers;
  for (const char* key : keys) {
    const Tensor* const value = state.find(key);
    if (!value || value->numel() != 1)
      throw InvalidArgument(text("[", name, ".load_state_dict] expected a number ", key, ", got none"));
    numbers.push_back(value->item<double>());
  }
  if (state.size() != keys.size())
    throw InvalidArgument(text("[", name, ".load_state_dict] expected ", keys.size(), " numbers, got ", state.size()));
  return numbers;
}

}  // namespace

Monitor::Monitor(const char* owner, std::string metric, std::optional<MetricMode> mode, double min_delta)
    : metric_(std::move(metric)), min_delta_(min_delta) {
  expect(!metric_.empty(), "monitor", "the name of a metric, got none");
  expect(min_delta >= 0, "monitor", "min_delta of at least 0, got ", min_delta);
  if (!mode) mode = known_mode(metric_);
  expect(mode.has_value(), owner, ".mode = train::MetricMode::min or train::MetricMode::max for ", metric_,
         ", got none: only losses, accuracy, binary_accuracy, mae and mse have a default");
  mode_ = *mode;
  reset();
}

void Monitor::check(const FitState& fit) const {
  if (metric_.starts_with("validation_") && !fit.has_validation())
    fit.refuse(text("[monitor] the metric is ", metric_,
                    ", but fit() was given no .validation loader. Give one, or monitor a metric of training"));
}

bool Monitor::improves(double value, std::int64_t epoch) {
  const bool better = mode_ == MetricMode::min ? value < best_ - min_delta_ : value > best_ + min_delta_;
  if (better) set(value, epoch);
  return better;
}

void Monitor::reset() { set(std::numeric_limits<double>::infinity() * (mode_ == MetricMode::min ? 1 : -1), 0); }

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options)
    : options_(options), monitor_("EarlyStopping", options.monitor, options.mode, options.min_delta) {
  expect(options.patience >= 1, "EarlyStopping", "patience of at least 1, got ", options.patience);
}

void EarlyStopping::on_fit_begin(FitState& fit) {
  monitor_.check(fit);
  if (fit.is_resumed()) {
    if (stopped_epoch_ > 0) fit.stop(text(name(), " had stopped this run after epoch ", stopped_epoch_));
    return;
  }
  monitor_.reset();
  wait_count_ = stopped_epoch_ = 0;
}

void EarlyStopping::on_epoch_end(FitState& fit) {
  const double value = monitor_.value(fit);
  wait_count_ = monitor_.improves(value, fit.epoch()) ? 0 : wait_count_ + 1;
  if (wait_count_ < options_.patience && (std::isfinite(value) || !options_.check_finite)) return;
  stopped_epoch_ = fit.epoch();
  if (options_.check_finite && !std::isfinite(value))
    fit.stop(text(monitor_.metric(), " is ", value, ", which is not finite"));
  else if (monitor_.best_epoch() == 0)
    fit.stop(text(monitor_.metric(), " was not finite in ", wait_count_, " epochs"));
  else
    fit.stop(text(monitor_.metric(), " was not ", monitor_.mode() == MetricMode::min ? "below " : "above ",
                  monitor_.best(), ", of epoch ", monitor_.best_epoch(),
                  options_.min_delta > 0 ? text(", by more than ", options_.min_delta) : "", ", in ", wait_count_,
                  wait_count_ == 1 ? " epoch" : " epochs"));
}

StateDict EarlyStopping::state_dict() const {
  return state_of_numbers({{"best_score", monitor_.best()},
                           {"best_epoch", double(monitor_.best_epoch())},
                           {"wait_count", double(wait_count_)},
                           {"stopped_epoch", double(stopped_epoch_)}});
}

void EarlyStopping::load_state_dict(const StateDict& state) {
  const auto numbers =
      numbers_of_state(state, {"best_score", "best_epoch", "wait_count", "stopped_epoch"}, "EarlyStopping");
  monitor_.set(numbers[0], std::int64_t(numbers[1]));
  wait_count_ = std::int64_t(numbers[2]);
  stopped_epoch_ = std::int64_t(numbers[3]);
}

ModelCheckpoint::ModelCheckpoint(const ModelCheckpointOptions& options)
    : options_(options), monitor_("ModelCheckpoint", options.monitor, options.mode, 0) {
  expect(!options.path.empty(), "ModelCheckpoint", "a path, got none");
}

void ModelCheckpoint::on_fit_begin(FitState& fit) {
  monitor_.check(fit);
  if (!fit.is_resumed()) monitor_.reset();
}

void ModelCheckpoint::on_epoch_end(FitState& fit) {
  const double value = monitor_.value(fit);
  if (!monitor_.improves(value, fit.epoch())) return;
  const StateDict best = fit.module().state_dict();
  fit.on_first_process("writing the best model", [&] {
    save(best, options_.path,
         {{monitor_.metric(), exact(value)}, {"epoch", text(fit.epoch())}, {"step", text(fit.step())}});
  });
}

StateDict ModelCheckpoint::state_dict() const {
  return state_of_numbers({{"best_score", monitor_.best()}, {"best_epoch", double(monitor_.best_epoch())}});
}

void ModelCheckpoint::load_state_dict(const StateDict& state) {
  const auto numbers = numbers_of_state(state, {"best_score", "best_epoch"}, "ModelCheckpoint");
  monitor_.set(numbers[0], std::int64_t(numbers[1]));
}

}  // namespace lockstep::train
