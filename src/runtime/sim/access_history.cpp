#include "runtime/sim/access_history.h"

#include <algorithm>

namespace lockstep::sim {

const PastAccess* AccessHistory::find_conflict(const Region& region, AccessKind kind, const Clock& clock) const {
  const std::uintptr_t begin = begin_of(region), end = end_of(region);
  auto cell = cells_.upper_bound(begin);
  if (cell != cells_.begin() && std::prev(cell)->second.end > begin) --cell;
  for (; cell != cells_.end() && cell->first < end; ++cell)
    for (const PastAccess& past : cell->second.accesses) {
      if (kind == AccessKind::kRead && past.kind == AccessKind::kRead) continue;
      if (!past.happened_before(clock) && overlaps(region, past.region)) return &past;
    }
  return nullptr;
}

void AccessHistory::remember(const PastAccess& access, const Clock& clock, const Clock& host) {
  const std::uintptr_t begin = begin_of(access.region), end = end_of(access.region);
  const bool whole = access.region.rows == 1;  // covers every cell between its ends
  const bool write = access.kind == AccessKind::kWrite;
  Cells::iterator cell = cut(begin);
  cut(end);

  if (whole && write) {
    if (cell == cells_.end() || cell->first != begin) cell = cells_.emplace_hint(cell, begin, Cell());
    cell->second.end = end;
    cell->second.accesses.assign(1, access);
    cells_.erase(std::next(cell), cells_.lower_bound(end));
    return;
  }

  // An access is superseded when whatever races with it would race with the new one too.
  const auto obsolete = [&](const PastAccess& past) {
    if (past.happened_before(host)) return true;
    return (write || past.kind == AccessKind::kRead) && past.happened_before(clock) &&
           (whole || covers(access.region, past.region));
  };
  for (std::uintptr_t at = begin; at < end; at = cell->second.end, ++cell) {
    if (cell == cells_.end() || cell->first > at) {
      const std::uintptr_t gap_end = cell == cells_.end() ? end : std::min(end, cell->first);
      cell = cells_.emplace_hint(cell, at, Cell{gap_end, {}});
    }
    std::erase_if(cell->second.accesses, obsolete);
    cell->second.accesses.push_back(access);
  }
}

void AccessHistory::forget(const Region& region) {
  if (is_empty(region)) return;
  const Cells::iterator first = cut(begin_of(region));
  cut(end_of(region));
  cells_.erase(first, cells_.lower_bound(end_of(region)));
}

void AccessHistory::forget_before(const Clock& clock, const Region& region) {
  if (is_empty(region)) return;
  Cells::iterator cell = cut(begin_of(region));
  cut(end_of(region));
  for (; cell != cells_.end() && cell->first < end_of(region); ++cell)
    std::erase_if(cell->second.accesses, [&](const PastAccess& past) { return past.happened_before(clock); });
}

std::size_t AccessHistory::size() const noexcept {
  std::size_t count = 0;
  for (const auto& [begin, cell] : cells_) count += cell.accesses.size();
  return count;
}

// Makes `address` a border between cells; the first cell at or after it.
AccessHistory::Cells::iterator AccessHistory::cut(std::uintptr_t address) {
  const Cells::iterator after = cells_.lower_bound(address);
  if (after == cells_.begin()) return after;
  const Cells::iterator before = std::prev(after);
  if (before->second.end <= address) return after;
  const Cells::iterator upper = cells_.emplace_hint(after, address, before->second);
  before->second.end = address;
  return upper;
}

}  // namespace lockstep::sim
