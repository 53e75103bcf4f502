#include <lockstep/optim/reduce_lr_on_plateau.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/text.h"
#include "optim/state_reader.h"

namespace lockstep::optim {
namespace {

template <class Number>
void expect_option(bool holds, const char* expected, Number got) {
  if (!holds) throw InvalidArgument(text("[ReduceLROnPlateau] expected ", expected, ", got ", got));
}

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options)
    : optimizer_(&optimizer), options_(options) {
  expect_option(options.factor >= 0 && options.factor < 1, "factor in [0, 1)", options.factor);
  expect_option(options.patience >= 0, "patience of at least 0", options.patience);
  expect_option(options.threshold >= 0, "threshold of at least 0", options.threshold);
  expect_option(options.cooldown >= 0, "cooldown of at least 0", options.cooldown);
  expect_option(options.min_lr >= 0, "min_lr of at least 0", options.min_lr);
  expect_option(options.eps >= 0, "eps of at least 0", options.eps);
  best_ = std::numeric_limits<double>::infinity() * (options.mode == MetricMode::min ? 1 : -1);
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) last_lr_.push_back(optimizer.lr(g));
}

bool ReduceLROnPlateau::is_better(double metric) const noexcept {
  const double sign = options_.mode == MetricMode::min ? -1 : 1;
  const bool relative = options_.threshold_mode == ThresholdMode::rel;
  const double bound = relative ? best_ * (1 + sign * options_.threshold) : best_ + sign * options_.threshold;
  return sign < 0 ? metric < bound : metric > bound;
}

void ReduceLROnPlateau::step(double metric) {
  ++last_epoch_;
  if (is_better(metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ > options_.patience) {
    reduce();
    cooldown_counter_ = options_.cooldown;
    num_bad_epochs_ = 0;
  }
  for (std::size_t g = 0; g < last_lr_.size(); ++g) last_lr_[g] = optimizer_->lr(g);
}

void ReduceLROnPlateau::reduce() {
  for (std::size_t g = 0; g < optimizer_->group_count(); ++g) {
    const double before = optimizer_->lr(g), after = std::max(before * options_.factor, options_.min_lr);
    if (before - after > options_.eps) optimizer_->set_lr(after, g);
  }
}

StateDict ReduceLROnPlateau::state_dict() const {
  StateDict dict;
  dict.add("best", number_tensor(best_));
  dict.add("num_bad_epochs", number_tensor(double(num_bad_epochs_)));
  dict.add("cooldown_counter", number_tensor(double(cooldown_counter_)));
  dict.add("last_epoch", number_tensor(double(last_epoch_)));
  return dict;
}

void ReduceLROnPlateau::load_state_dict(const StateDict& state) {
  StateReader reader(state);
  double best = best_;
  reader.number("best", best);
  std::int64_t bad = 0, cooldown = 0, epoch = 0;
  reader.integer("num_bad_epochs", bad);
  reader.integer("cooldown_counter", cooldown);
  reader.integer("last_epoch", epoch);
  reader.finish("ReduceLROnPlateau");
  best_ = best;
  num_bad_epochs_ = bad;
  cooldown_counter_ = cooldown;
  last_epoch_ = epoch;
  for (std::size_t g = 0; g < last_lr_.size(); ++g) last_lr_[g] = optimizer_->lr(g);
}

}  // namespace lockstep::optim
