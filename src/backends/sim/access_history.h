// The accesses to simulated memory that a later access may still race with. The caller guards it with a lock.
//
// Contiguous accesses are in an interval map: disjoint cells of addresses, each with the accesses that cover it. A
// write leaves one cell with one entry, so the history of a loop stays as small as its working set. Accesses with gaps
// (a column of a matrix) are in clusters instead: a cluster has accesses whose spans intersect, and each access is in
// one cluster. (In cells, reads of all columns would cut a matrix into many cells with many entries.)
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backends/sim/region.h"

namespace lockstep::sim {

/// A vector clock: for each stream, how many of its operations are known to have happened before.
using Clock = std::vector<std::uint64_t>;

struct PastAccess {
  Region region;  ///< As normalized() (region.h) returns it.
  AccessKind kind = AccessKind::read;
  int stream = 0;
  std::uint64_t epoch = 0;  ///< The operation's number in its stream, from 1.
  const char* op = "";

  bool happened_before(const Clock& clock) const noexcept {
    return std::size_t(stream) < clock.size() && clock[std::size_t(stream)] >= epoch;
  }
};

class AccessHistory {
 public:
  /// Checks a new access, made at `clock`: returns a past access that races with it, or null. Two accesses race if they
  /// share a byte, one of them is a write, and the past one did not happen before `clock`.
  const PastAccess* find_conflict(const Region& region, AccessKind kind, const Clock& clock) const;

  /// Adds an access made at `clock`. Drops the accesses that need not be kept any more: those that the new access
  /// supersedes, and those before `host` (the host has waited for them, so all later accesses come after them). All
  /// accesses in conflict with the new one must be before `clock`.
  void remember(const PastAccess& access, const Clock& clock, const Clock& host);

  /// Drops all accesses to these bytes.
  void forget(const Region& region);
  /// Drops the accesses to these bytes that are before `clock`.
  void forget_before(const Clock& clock, const Region& region);

  std::size_t size() const noexcept;  ///< Number of entries in all cells.

 private:
  struct Range {
    std::uintptr_t end = 0;
    std::vector<PastAccess> accesses;
  };
  using Ranges = std::map<std::uintptr_t, Range>;  // disjoint, keyed by their first address

  Ranges::iterator cut(std::uintptr_t address);
  std::vector<PastAccess>& merged_cluster(std::uintptr_t begin, std::uintptr_t end);
  template <class Drop>
  void drop_clustered(std::uintptr_t begin, std::uintptr_t end, const Drop& drop);

  Ranges cells_;
  Ranges clusters_;
};

}  // namespace lockstep::sim
