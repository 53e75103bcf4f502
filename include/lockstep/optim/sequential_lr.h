// Runs schedules one after the other, such as a warm-up before a cosine.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include <lockstep/optim/lambda_lr.h>
#include <lockstep/optim/schedule.h>

namespace lockstep::optim {

/// The options of any schedule that is a function of the step and of the initial rate.
using ScheduleOptions = std::variant<StepLROptions, MultiStepLROptions, ExponentialLROptions, CosineAnnealingLROptions,
                                     CosineAnnealingWarmRestartsOptions, LinearLROptions, ConstantLROptions,
                                     PolynomialLROptions, LambdaLROptions>;

/// The first schedule runs up to milestones[0], the second schedule from there on, and so on. Each schedule counts its
/// steps from 0, and takes the groups' initial rates as its base.
///
///   SequentialLR schedule(optimizer, {.schedulers = {LinearLROptions{.total_iters = 500},
///                                                    CosineAnnealingLROptions{.T_max = 9500}},
///                                     .milestones = {500}});
struct SequentialLROptions {
  std::vector<ScheduleOptions> schedulers = {};  ///< In order.
  std::vector<std::int64_t> milestones = {};     ///< Increasing; one fewer than schedulers.
  LOCKSTEP_API void check() const;
  LOCKSTEP_API void check_groups(std::size_t groups) const;  ///< Throws InvalidArgument as check() does.
  LOCKSTEP_API double lr(std::int64_t epoch, double base_lr, std::size_t group) const;  ///< The rate at that epoch.
};
using SequentialLR = BasicSchedule<SequentialLROptions>;

}  // namespace lockstep::optim
