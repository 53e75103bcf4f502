// Learning rate schedules, with PyTorch's names and options. A schedule is a value that refers to an optimizer, which
// must outlive it. Its constructor sets the rates for step 0; each call of step() sets those of the next step.
//
//   optim::StepLR schedule(optimizer, {.step_size = 30});  // or by position: schedule(optimizer, 30)
//   for (...) { ...; optimizer.step(); schedule.step(); }
//
// Rates are a function of the number of steps and of the groups' rates when the schedule was made; a set_lr() in
// between holds until the next step. To run schedules one after the other, use SequentialLR (sequential_lr.h). If an
// optimizer had two schedules, the last one to step would set the rates, and the second schedule would start from the
// rates that the first has set.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/core/lifetime.h>
#include <lockstep/optim/optimizer.h>

namespace lockstep::optim {

/// One number for all groups, or one per group.
struct PerGroup : std::vector<double> {
  PerGroup(double value) : vector{value} {}
  PerGroup(std::initializer_list<double> values) : vector(values) {}
  double of(std::size_t group) const { return size() == 1 ? front() : at(group); }  ///< The number of a group.
};

/// Sets an optimizer's learning rates step by step: see the top of this file.
class LOCKSTEP_API Schedule {
 public:
  virtual ~Schedule() = default;

  void step();
  /// The rate of each group that this schedule set last.
  const std::vector<double>& get_last_lr() const noexcept { return last_lr_; }
  std::int64_t last_epoch() const noexcept { return last_epoch_; }     ///< Number of calls of step().
  const Optimizer& optimizer() const noexcept { return *optimizer_; }  ///< The optimizer whose rates it sets.

  /// Has the keys "last_epoch" and "base_lrs".
  StateDict state_dict() const;
  /// Also sets the rates of the loaded step. Before anything is changed, throws one InvalidArgument that names all
  /// missing, unexpected and invalid keys.
  void load_state_dict(const StateDict& state);

 protected:
  explicit Schedule(Optimizer& optimizer);
  Schedule(const Schedule&) = default;
  Schedule& operator=(const Schedule&) = default;
  /// Sets the rates of this step.
  void apply();
  /// Throws InvalidArgument naming the schedule unless `values` is 1 or the number of the optimizer's groups.
  void expect_per_group(const char* schedule, const char* option, std::size_t values) const;

 private:
  /// The rate of a group after `epoch` calls of step(). Throws InvalidArgument past the schedule's last step.
  virtual double lr_at(std::int64_t epoch, double base_lr, std::size_t group) const = 0;
  virtual std::optional<double> momentum_at(std::int64_t /*epoch*/) const { return {}; }
  /// True if the schedule takes as its base the rates that the optimizer has at the first step(), not those at
  /// construction.
  virtual bool begins_at_first_step() const { return false; }

  Optimizer* optimizer_;
  std::int64_t last_epoch_ = 0;
  std::vector<double> base_lrs_;
  std::vector<double> last_lr_;
  lockstep::detail::Lifetime lifetime_;
};

namespace detail {
/// Calls rule.lr(), with the group if the rule takes one.
template <class Rule>
double rate(const Rule& rule, std::int64_t epoch, double base_lr, std::size_t group) {
  if constexpr (requires { rule.lr(epoch, base_lr, group); })
    return rule.lr(epoch, base_lr, group);
  else
    return rule.lr(epoch, base_lr);
}
template <class Rule>
void check_groups(const Rule& rule, std::size_t groups) {
  if constexpr (requires { rule.check_groups(groups); }) rule.check_groups(groups);
}
}  // namespace detail

/// A schedule whose rule is an aggregate with check() and lr(epoch, base_lr). A rule that depends on the group has
/// lr(epoch, base_lr, group) and check_groups(count).
template <class Rule>
class BasicSchedule final : public Schedule {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit BasicSchedule(Optimizer& optimizer, const Rule& rule = {}) : Schedule(optimizer), rule_(rule) {
    rule_.check();
    detail::check_groups(rule_, optimizer.group_count());
    apply();
  }
  /// Takes the first options by position, in PyTorch's order: StepLR(optimizer, 30, 0.1).
  template <class... Values>
  requires(sizeof...(Values) > 0 && !(std::same_as<std::remove_cvref_t<Values>, Rule> || ...) &&
           requires(Values && ... values) { Rule{std::forward<Values>(values)...}; })
      BasicSchedule(Optimizer& optimizer, Values&&... values)
      : BasicSchedule(optimizer, Rule{std::forward<Values>(values)...}) {}

 private:
  double lr_at(std::int64_t epoch, double base_lr, std::size_t group) const override {
    return detail::rate(rule_, epoch, base_lr, group);
  }

  Rule rule_;
};

/// The rate is base * gamma^floor(epoch / step_size).
struct StepLROptions {
  std::int64_t step_size = 1;  ///< Steps from one decay to the next.
  double gamma = 0.1;
  LOCKSTEP_API void check() const;
  LOCKSTEP_API double lr(std::int64_t epoch, double base_lr) const;  ///< The rate at that epoch.
};
using StepLR = BasicSchedule<StepLROptions>;

/// The rate is base * gamma^(number of milestones reached). The milestones may be in any order.
struct MultiStepLROptions {
  std::vector<std::int64_t> milestones = {};  ///< The epochs at which the rate decays.
  double gamma = 0.1;
  LOCKSTEP_API void check() const;
  LOCKSTEP_API double lr(std::int64_t epoch, double base_lr) const;  ///< The rate at that epoch.
};
using MultiStepLR = BasicSchedule<MultiStepLROptions>;

/// The rate is base * gamma^epoch.
struct ExponentialLROptions {
  double gamma = 1;
  LOCKSTEP_API void check() const;
  LOCKSTEP_API double lr(std::int64_t epoch, double base_lr) const;  ///< The rate at that epoch.
};
using ExponentialLR = BasicSchedule<ExponentialLROptions>;

/// The rate goes from base to eta_min along half a cosine of T_max steps, then back up, and so on.
struct CosineAnnealingLROptions {
  std::int64_t T_max = 1;  ///< Half a period, in steps.
  double eta_min = 0;
  LOCKSTEP_API void check() const;
  LOCKSTEP_API double lr(std::int64_t epoch, double base_lr) const;  ///< The rate at that epoch.
};
using CosineAnnealingLR = BasicSchedule<CosineAnnealingLROptions>;

/// The rate goes from base to eta_min along half a cosine, then starts again from base. Each round is T_mult times as
/// long as the round before. Loshchilov, Hutter 2017 (SGDR).
struct CosineAnnealingWarmRestartsOptions {
  std::int64_t T_0 = 1;     ///< Steps of the first round.
  std::int64_t T_mult = 1;  ///< The length of a round divided by that of the previous one.
  double eta_min = 0;
  LOCKSTEP_API void check() const;
  LOCKSTEP_API double lr(std::int64_t epoch, double base_lr) const;  ///< The rate at that epoch.
};
using CosineAnnealingWarmRestarts = BasicSchedule<CosineAnnealingWarmRestartsOptions>;

/// The rate goes in a line from base * start_factor to base * end_factor in total_iters steps.
struct LinearLROptions {
  double start_factor = 1. / 3;  ///< Factor of base at the first step.
  double end_factor = 1;         ///< Factor of base at the end.
  std::int64_t total_iters = 5;
  LOCKSTEP_API void check() const;
  LOCKSTEP_API double lr(std::int64_t epoch, double base_lr) const;  ///< The rate at that epoch.
};
using LinearLR = BasicSchedule<LinearLROptions>;

/// The rate is base * factor for total_iters steps, then base.
struct ConstantLROptions {
  double factor = 1. / 3;        ///< In [0, 1].
  std::int64_t total_iters = 5;  ///< Steps before the rate becomes base.
  LOCKSTEP_API void check() const;
  LOCKSTEP_API double lr(std::int64_t epoch, double base_lr) const;  ///< The rate at that epoch.
};
using ConstantLR = BasicSchedule<ConstantLROptions>;

/// The rate is base * (1 - epoch / total_iters)^power for total_iters steps, then 0.
struct PolynomialLROptions {
  std::int64_t total_iters = 5;
  double power = 1;  ///< 1: a straight line.
  LOCKSTEP_API void check() const;
  LOCKSTEP_API double lr(std::int64_t epoch, double base_lr) const;  ///< The rate at that epoch.
};
using PolynomialLR = BasicSchedule<PolynomialLROptions>;

}  // namespace lockstep::optim
