#include <lockstep/optim/sequential_lr.h>

#include <algorithm>

#include "core/text.h"

namespace lockstep::optim {

void SequentialLROptions::check() const {
  if (schedulers.empty() || milestones.size() != schedulers.size() - 1)
    throw InvalidArgument(text("[SequentialLR] expected one milestone fewer than schedulers, got ", milestones.size(),
                               " milestones and ", schedulers.size(), " schedulers"));
  std::int64_t before = 0;
  for (const std::int64_t milestone : milestones) {
    if (milestone <= before)
      throw InvalidArgument(
          text("[SequentialLR] expected milestones that grow from 1 on, got ", milestone, " after ", before));
    before = milestone;
  }
  for (const ScheduleOptions& schedule : schedulers) std::visit([](const auto& options) { options.check(); }, schedule);
}

void SequentialLROptions::check_groups(std::size_t groups) const {
  for (const ScheduleOptions& schedule : schedulers)
    std::visit([groups](const auto& options) { detail::check_groups(options, groups); }, schedule);
}

double SequentialLROptions::lr(std::int64_t epoch, double base_lr, std::size_t group) const {
  const auto next = std::ranges::upper_bound(milestones, epoch);
  const std::int64_t begin = next == milestones.begin() ? 0 : next[-1];
  const ScheduleOptions& schedule = schedulers[std::size_t(next - milestones.begin())];
  return std::visit([&](const auto& options) { return detail::rate(options, epoch - begin, base_lr, group); },
                    schedule);
}

}  // namespace lockstep::optim
