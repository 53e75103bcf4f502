#include <lockstep/optim/one_cycle.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <lockstep/optim/rule.h>

#include "core/text.h"

namespace lockstep::optim {
namespace {

constexpr const char* kOneCycle = "OneCycleLR";

double anneal(Anneal strategy, double from, double to, double part) {
  if (strategy == Anneal::linear) return from + (to - from) * part;
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
}

// The position of a step in the policy: a phase, and the fraction of the phase that is over.
struct Moment {
  int phase;
  double part;
};

Moment moment(const OneCycleLROptions& o, std::int64_t epoch) {
  const auto total = double(o.total_steps);
  const double up = o.pct_start * total - 1, down = 2 * o.pct_start * total - 2, last = total - 1;
  const auto at = double(std::min(epoch, o.total_steps - 1));  // after the last step the rates stay
  // Returns the fraction of a phase that is over; 1 for a phase of length 0.
  const auto part = [at](double from, double to) { return to > from ? (at - from) / (to - from) : 1; };
  if (at <= up) return {0, part(0, up)};
  if (!o.three_phase) return {1, part(up, last)};
  if (at <= down) return {1, part(up, down)};
  return {2, part(down, last)};
}

// The value at a step. With two phases it goes from low to high, then to `end`; with three from low to high, back to
// low, then to `end`.
double through(const OneCycleLROptions& o, std::int64_t epoch, double low, double high, double end) {
  const double turns[] = {low, high, o.three_phase ? low : end, end};
  const auto [phase, part] = moment(o, epoch);
  return anneal(o.anneal_strategy, turns[phase], turns[phase + 1], part);
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options)
    : Schedule(optimizer), options_(options) {
  if (options_.total_steps == 0) options_.total_steps = options_.epochs * options_.steps_per_epoch;
  require(options_.total_steps > 0, kOneCycle, "total_steps > 0, or epochs and steps_per_epoch",
          double(options_.total_steps));
  require(options_.pct_start >= 0 && options_.pct_start <= 1, kOneCycle, "pct_start in [0, 1]", options_.pct_start);
  require(options_.div_factor > 0, kOneCycle, "div_factor > 0", options_.div_factor);
  require(options_.final_div_factor > 0, kOneCycle, "final_div_factor > 0", options_.final_div_factor);
  for (std::size_t g = 0; g < options_.max_lr.size(); ++g)
    require(options_.max_lr.of(g) >= 0, kOneCycle, "max_lr >= 0", options_.max_lr.of(g));
  for (const double momentum : {options_.base_momentum, options_.max_momentum})
    require(momentum >= 0 && momentum <= 1, kOneCycle, "momenta in [0, 1]", momentum);
  expect_per_group(kOneCycle, "max_lr", options_.max_lr.size());
  if (options_.cycle_momentum && !optimizer.momentum())
    throw InvalidArgument(
        "[OneCycleLR] cycle_momentum needs an optimizer with momentum, got one without: set .cycle_momentum = false");
  apply();
}

double OneCycleLR::lr_at(std::int64_t epoch, double, std::size_t group) const {
  if (epoch > options_.total_steps)
    throw InvalidArgument(text("[OneCycleLR] expected at most ", options_.total_steps, " steps, got ", epoch));
  const double highest = options_.max_lr.of(group);
  const double first = highest / options_.div_factor;
  return through(options_, epoch, first, highest, first / options_.final_div_factor);
}

std::optional<double> OneCycleLR::momentum_at(std::int64_t epoch) const {
  if (!options_.cycle_momentum) return {};
  const double most = options_.max_momentum;
  return through(options_, epoch, most, options_.base_momentum, most);
}

}  // namespace lockstep::optim
