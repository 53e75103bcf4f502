// Which accesses to simulated memory a later one may still race with. The caller guards it with a lock.
//
// Accesses of whole ranges lie in an interval map: disjoint cells of addresses, each with the accesses that cover it. A
// write leaves one cell with one entry there, so the history of a loop stays as small as the loop's working set.
// Accesses with gaps (a column of a matrix) lie in clusters instead, each with the accesses whose spans meet and each
// access in one of them: reads of all columns would cut a matrix into as many cells, each with as many entries.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/sim/region.h"

namespace lockstep::sim {

/// One component for each stream: how many of its operations are known to come before.
using Clock = std::vector<std::uint64_t>;

struct PastAccess {
  Region region;  ///< Normalized.
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
  /// An access that touches the same bytes, one of the two being a write, and that is not before `clock`; or null.
  const PastAccess* find_conflict(const Region& region, AccessKind kind, const Clock& clock) const;

  /// Adds an access made at `clock`, and drops what it supersedes and what is before `host`, which everything to come
  /// will be after. Its conflicts must all be before `clock`.
  void remember(const PastAccess& access, const Clock& clock, const Clock& host);

  /// Drops all that is known of these bytes.
  void forget(const Region& region);
  /// Of these bytes what is before `clock`.
  void forget_before(const Clock& clock, const Region& region);

  std::size_t size() const noexcept;  ///< Entries, over all cells.

 private:
  struct Range {
    std::uintptr_t end = 0;
    std::vector<PastAccess> accesses;
  };
  using Ranges = std::map<std::uintptr_t, Range>;  // disjoint, by their first address

  Ranges::iterator cut(std::uintptr_t address);
  std::vector<PastAccess>& merged_cluster(std::uintptr_t begin, std::uintptr_t end);
  template <class Drop>
  void drop_clustered(std::uintptr_t begin, std::uintptr_t end, const Drop& drop);

  Ranges cells_;
  Ranges clusters_;
};

}  // namespace lockstep::sim
