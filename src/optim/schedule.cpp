#include <lockstep/optim/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <lockstep/tensor/creation.h>

#include "core/context.h"
#include "optim/state_reader.h"
#include "tensor/step_parts.h"
#include "tensor/step_values.h"

namespace lockstep::optim {
namespace {

Tensor numbers_tensor(const std::vector<double>& values) {
  return from_host(values.data(), values.size(), kFloat64, {std::int64_t(values.size())}, {.dtype = kFloat64});
}

void require(bool holds, const char* schedule, const char* expected, double got) {
  if (!holds) throw InvalidArgument(text("[", schedule, "] expected ", expected, ", got ", got));
}

// From `high` to `low` as `part` goes from 0 to 1.
double half_cosine(double high, double low, double part) {
  return low + (high - low) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace

Schedule::Schedule(Optimizer& optimizer) : optimizer_(&optimizer) {
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) base_lrs_.push_back(optimizer.lr(g));
  last_lr_ = base_lrs_;
}

void Schedule::step() {
  if (StepValues* const values = context().step_values) values->before_each([this] { step(); });
  if (StepParts* const parts = context().step_parts) parts->add<LivingPart>(this, lifetime_.watch(), "schedule");
  ++last_epoch_;
  try {
    apply();
  } catch (...) {
    --last_epoch_;
    throw;
  }
}

void Schedule::apply() {
  std::vector<double> rates;
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) rates.push_back(lr_at(last_epoch_, base_lrs_[g], g));
  const std::optional<double> momentum = momentum_at(last_epoch_);
  for (std::size_t g = 0; g < rates.size(); ++g) {
    optimizer_->set_lr(rates[g], g);
    if (momentum) optimizer_->set_momentum(*momentum, g);
  }
  last_lr_ = std::move(rates);
}

StateDict Schedule::state_dict() const {
  StateDict dict;
  dict.add("last_epoch", from_host(&last_epoch_, 1, kInt64, {}, {.dtype = kInt64}));
  dict.add("base_lrs", numbers_tensor(base_lrs_));
  return dict;
}

void Schedule::load_state_dict(const StateDict& state) {
  StateReader reader(state);
  double epoch = 0;
  std::vector<double> base_lrs = base_lrs_;
  if (reader.number("last_epoch", epoch) && !(epoch >= 0 && epoch < 0x1p53 && epoch == std::floor(epoch)))
    reader.problem("\"last_epoch\" ", epoch);
  if (reader.numbers("base_lrs", base_lrs))
    for (const double lr : base_lrs)
      if (!(lr >= 0)) reader.problem("\"base_lrs\" ", lr);
  reader.finish("Schedule");
  std::swap(base_lrs_, base_lrs);
  const std::int64_t before = std::exchange(last_epoch_, std::int64_t(epoch));
  try {
    apply();
  } catch (...) {
    std::swap(base_lrs_, base_lrs);
    last_epoch_ = before;
    throw;
  }
}

void StepLROptions::check() const { require(step_size > 0, "StepLR", "step_size > 0", double(step_size)); }
double StepLROptions::lr(std::int64_t epoch, double base_lr) const {
  return base_lr * std::pow(gamma, double(epoch / step_size));
}

void MultiStepLROptions::check() const {}
double MultiStepLROptions::lr(std::int64_t epoch, double base_lr) const {
  const auto reached = std::count_if(milestones.begin(), milestones.end(), [=](std::int64_t m) { return m <= epoch; });
  return base_lr * std::pow(gamma, double(reached));
}

void ExponentialLROptions::check() const {}
double ExponentialLROptions::lr(std::int64_t epoch, double base_lr) const {
  return base_lr * std::pow(gamma, double(epoch));
}

void CosineAnnealingLROptions::check() const { require(t_max > 0, "CosineAnnealingLR", "t_max > 0", double(t_max)); }
double CosineAnnealingLROptions::lr(std::int64_t epoch, double base_lr) const {
  return half_cosine(base_lr, eta_min, double(epoch) / double(t_max));
}

void CosineAnnealingWarmRestartsOptions::check() const {
  require(t_0 > 0, "CosineAnnealingWarmRestarts", "t_0 > 0", double(t_0));
  require(t_mult > 0, "CosineAnnealingWarmRestarts", "t_mult > 0", double(t_mult));
}
double CosineAnnealingWarmRestartsOptions::lr(std::int64_t epoch, double base_lr) const {
  std::int64_t round = t_0;
  if (t_mult == 1) epoch %= t_0;
  for (; epoch >= round; round *= t_mult) epoch -= round;
  return half_cosine(base_lr, eta_min, double(epoch) / double(round));
}

void LinearLROptions::check() const {
  require(start_factor > 0 && start_factor <= 1, "LinearLR", "start_factor in (0, 1]", start_factor);
  require(end_factor >= 0 && end_factor <= 1, "LinearLR", "end_factor in [0, 1]", end_factor);
  require(total_iters > 0, "LinearLR", "total_iters > 0", double(total_iters));
}
double LinearLROptions::lr(std::int64_t epoch, double base_lr) const {
  const double part = double(std::min(epoch, total_iters)) / double(total_iters);
  return base_lr * (start_factor + (end_factor - start_factor) * part);
}

void PolynomialLROptions::check() const {
  require(total_iters > 0, "PolynomialLR", "total_iters > 0", double(total_iters));
}
double PolynomialLROptions::lr(std::int64_t epoch, double base_lr) const {
  return base_lr * std::pow(1 - double(std::min(epoch, total_iters)) / double(total_iters), power);
}

}  // namespace lockstep::optim
