#include <lockstep/optim/sequential_lr.h>

#include <algorithm>

#include "core/text.h"

namespace lockstep::optim {

void SequentialLROptions::check() const {
  if (schedules.empty() || milestones.size() != schedules.size() - 1)
    throw InvalidArgument(text("[SequentialLR] expected one milestone fewer than schedules, got ", milestones.size(),
                               " milestones and ", schedules.size(), " schedules"));
  std::int64_t before = 0;
  for (const std::int64_t milestone : milestones) {
    if (milestone <= before)
      throw InvalidArgument(
          text("[SequentialLR] expected milestones that grow from 1 on, got ", milestone, " after ", before));
    before = milestone;
  }
  for (const ScheduleOptions& schedule : schedules) std::visit([](const auto& options) { options.check(); }, schedule);
}

double SequentialLROptions::lr(std::int64_t epoch, double base_lr) const {
  const auto next = std::ranges::upper_bound(milestones, epoch);
  const std::int64_t begin = next == milestones.begin() ? 0 : next[-1];
  const ScheduleOptions& schedule = schedules[std::size_t(next - milestones.begin())];
  return std::visit([&](const auto& options) { return options.lr(epoch - begin, base_lr); }, schedule);
}

}  // namespace lockstep::optim
