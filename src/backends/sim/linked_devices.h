// Which devices' work may depend on each other's.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

namespace lockstep::sim {

/// Groups of devices. Two devices come into one group when a stream of one waits for a stream of the other, or when
/// both take part in a collective of this process; they stay there.
class LinkedDevices {
 public:
  explicit LinkedDevices(int devices) : group_(std::size_t(devices)) { std::iota(group_.begin(), group_.end(), 0); }

  void link(int a, int b) noexcept {
    if (const int from = group_of(a), to = group_of(b); from != to)
      std::replace(group_.begin(), group_.end(), from, to);
  }
  bool are_linked(int a, int b) const noexcept { return group_of(a) == group_of(b); }

 private:
  int group_of(int device) const noexcept { return group_[std::size_t(device)]; }

  std::vector<int> group_;  // by device
};

}  // namespace lockstep::sim
