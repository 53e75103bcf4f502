#include "backends/sim/faults.h"

#include <lockstep/core/error.h>

#include <algorithm>
#include <limits>

#include "core/text.h"

namespace lockstep::sim {

void Faults::inject(FaultKind kind, const Fault& fault) {
  if (fault.device < 0 || std::size_t(fault.device) >= devices_.size())
    throw InvalidArgument(
        text("[fault] expected a device from 0 to ", devices_.size() - 1, ", got device ", fault.device));
  if (fault.nth == 0 || fault.count == 0)
    throw InvalidArgument(
        text("[fault] expected nth and count of at least 1, got nth ", fault.nth, " and count ", fault.count));
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  DeviceFaults& device = devices_[std::size_t(fault.device)];
  const std::uint64_t seen = device.counts[std::size_t(kind)];
  const std::uint64_t first = seen + std::min(fault.nth, kMax - seen);
  device.windows[std::size_t(kind)].push_back({first, first + std::min(fault.count - 1, kMax - first)});
}

void Faults::clear() {
  for (DeviceFaults& device : devices_) {
    for (std::vector<Window>& windows : device.windows) windows.clear();
    device.lost = false;
  }
}

Faults::Verdict Faults::next(FaultKind kind, int index) {
  DeviceFaults& device = devices_[std::size_t(index)];
  const bool fails = device.step(kind);
  const bool is_work = kind == FaultKind::launch || kind == FaultKind::copy || kind == FaultKind::collective;
  if (is_work) device.lost |= device.step(FaultKind::loss);
  const bool needs_device = kind != FaultKind::record && kind != FaultKind::wait;
  if (device.lost && needs_device) return Verdict::lost;
  return fails ? Verdict::fails : Verdict::works;
}

OperationCounts Faults::counts(int device) const {
  const auto& counts = devices_[std::size_t(device)].counts;
  return {.allocations = counts[std::size_t(FaultKind::allocation)],
          .copies = counts[std::size_t(FaultKind::copy)],
          .launches = counts[std::size_t(FaultKind::launch)],
          .events = counts[std::size_t(FaultKind::record)],
          .waits = counts[std::size_t(FaultKind::wait)],
          .peer_copies = counts[std::size_t(FaultKind::peer_copy)],
          .host_waits = counts[std::size_t(FaultKind::host_wait)],
          .collectives = counts[std::size_t(FaultKind::collective)]};
}

bool Faults::DeviceFaults::step(FaultKind kind) {
  const std::uint64_t number = ++counts[std::size_t(kind)];
  std::vector<Window>& open = windows[std::size_t(kind)];
  if (open.empty()) return false;
  const bool fails =
      std::any_of(open.begin(), open.end(), [&](Window w) { return w.first <= number && number <= w.last; });
  std::erase_if(open, [&](Window w) { return w.last <= number; });
  return fails;
}

}  // namespace lockstep::sim
