#include <lockstep/optim/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <lockstep/optim/rule.h>
#include <lockstep/tensor/creation.h>

#include "core/context.h"
#include "optim/state_reader.h"
#include "tensor/host_state.h"
#include "tensor/replay_values.h"

namespace lockstep::optim {
namespace {

Tensor numbers_tensor(const std::vector<double>& values) {
  return from_host(values.data(), values.size(), kFloat64, {std::int64_t(values.size())}, {.dtype = kFloat64});
}

// Half a cosine from `high` to `low` as `part` goes from 0 to 1.
double half_cosine(double high, double low, double part) {
  return low + (high - low) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace

Schedule::Schedule(Optimizer& optimizer) : optimizer_(&optimizer) {
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) base_lrs_.push_back(optimizer.lr(g));
  last_lr_ = base_lrs_;
}

void Schedule::step() {
  if (ReplayValues* const values = context().replay_values) values->before_each([this] { step(); });
  if (HostState* const parts = context().host_state) parts->add<RequiredObject>(this, lifetime_.watch(), "schedule");
  if (last_epoch_ == 0 && begins_at_first_step())
    for (std::size_t g = 0; g < base_lrs_.size(); ++g) base_lrs_[g] = optimizer_->lr(g);
  ++last_epoch_;
  try {
    apply();
  } catch (...) {
    --last_epoch_;
    throw;
  }
}

void Schedule::expect_per_group(const char* schedule, const char* option, std::size_t values) const {
  const std::size_t groups = base_lrs_.size();
  if (values != 1 && values != groups)
    throw InvalidArgument(
        text("[", schedule, "] expected one ", option, " or one for each of ", groups, " groups, got ", values));
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
  std::int64_t epoch = 0;
  std::vector<double> base_lrs = base_lrs_;
  reader.integer("last_epoch", epoch);
  if (reader.numbers("base_lrs", base_lrs))
    for (const double lr : base_lrs)
      if (!(lr >= 0)) reader.problem("key \"base_lrs\" has ", lr, ", expected rates of at least 0");
  reader.finish("Schedule");
  std::swap(base_lrs_, base_lrs);
  const std::int64_t before = std::exchange(last_epoch_, epoch);
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

void CosineAnnealingLROptions::check() const { require(T_max > 0, "CosineAnnealingLR", "T_max > 0", double(T_max)); }
double CosineAnnealingLROptions::lr(std::int64_t epoch, double base_lr) const {
  return half_cosine(base_lr, eta_min, double(epoch) / double(T_max));
}

void CosineAnnealingWarmRestartsOptions::check() const {
  require(T_0 > 0, "CosineAnnealingWarmRestarts", "T_0 > 0", double(T_0));
  require(T_mult > 0, "CosineAnnealingWarmRestarts", "T_mult > 0", double(T_mult));
}
double CosineAnnealingWarmRestartsOptions::lr(std::int64_t epoch, double base_lr) const {
  std::int64_t round = T_0;
  if (T_mult == 1) epoch %= T_0;
  for (; epoch >= round; round *= T_mult) epoch -= round;
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

void ConstantLROptions::check() const {
  require(factor >= 0 && factor <= 1, "ConstantLR", "factor in [0, 1]", factor);
  require(total_iters > 0, "ConstantLR", "total_iters > 0", double(total_iters));
}
double ConstantLROptions::lr(std::int64_t epoch, double base_lr) const {
  return epoch < total_iters ? base_lr * factor : base_lr;
}

void PolynomialLROptions::check() const {
  require(total_iters > 0, "PolynomialLR", "total_iters > 0", double(total_iters));
}
double PolynomialLROptions::lr(std::int64_t epoch, double base_lr) const {
  return base_lr * std::pow(1 - double(std::min(epoch, total_iters)) / double(total_iters), power);
}

}  // namespace lockstep::optim
