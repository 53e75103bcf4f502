#include "backends/sim/access_history.h"

#include <algorithm>

namespace lockstep::sim {
namespace {

/// Returns the first range that ends after `address`.
template <class Ranges>
auto first_beyond(Ranges& ranges, std::uintptr_t address) {
  auto range = ranges.upper_bound(address);
  if (range != ranges.begin() && std::prev(range)->second.end > address) --range;
  return range;
}

bool lies_in(const Region& inner, std::uintptr_t begin, std::uintptr_t end) noexcept {
  return begin_of(inner) >= begin && end_of(inner) <= end;
}

}  // namespace

const PastAccess* AccessHistory::find_conflict(const Region& region, AccessKind kind, const Clock& clock) const {
  for (const Ranges* ranges : {&cells_, &clusters_})
    for (auto range = first_beyond(*ranges, begin_of(region)); range != ranges->end() && range->first < end_of(region);
         ++range)
      for (const PastAccess& past : range->second.accesses) {
        if (kind == AccessKind::read && past.kind == AccessKind::read) continue;
        if (!past.happened_before(clock) && overlaps(region, past.region)) return &past;
      }
  return nullptr;
}

void AccessHistory::remember(const PastAccess& access, const Clock& clock, const Clock& host) {
  const std::uintptr_t begin = begin_of(access.region), end = end_of(access.region);
  const bool write = access.kind == AccessKind::write;

  // A past access is superseded, and need not be kept, if any later access that races with it would also race with the
  // new one.
  const auto superseded = [&](const PastAccess& past) {
    return (write || past.kind == AccessKind::read) && past.happened_before(clock);
  };
  const auto obsolete = [&](const PastAccess& past) {
    return past.happened_before(host) || (superseded(past) && covers(access.region, past.region));
  };
  drop_clustered(begin, end, obsolete);

  if (access.region.rows > 1) {
    for (auto cell = first_beyond(cells_, begin); cell != cells_.end() && cell->first < end; ++cell)
      std::erase_if(cell->second.accesses, obsolete);
    merged_cluster(begin, end).push_back(access);
    return;
  }

  Ranges::iterator cell = cut(begin);
  cut(end);
  if (write) {
    if (cell == cells_.end() || cell->first != begin) cell = cells_.emplace_hint(cell, begin, Range());
    cell->second.end = end;
    cell->second.accesses.assign(1, access);
    cells_.erase(std::next(cell), cells_.lower_bound(end));
    return;
  }
  for (std::uintptr_t at = begin; at < end; at = cell->second.end, ++cell) {
    if (cell == cells_.end() || cell->first > at) {
      const std::uintptr_t gap_end = cell == cells_.end() ? end : std::min(end, cell->first);
      cell = cells_.emplace_hint(cell, at, Range{gap_end, {}});
    }
    std::erase_if(cell->second.accesses,
                  [&](const PastAccess& past) { return past.happened_before(host) || superseded(past); });
    cell->second.accesses.push_back(access);
  }
}

void AccessHistory::forget(const Region& region) {
  if (is_empty(region)) return;
  const std::uintptr_t begin = begin_of(region), end = end_of(region);
  const Ranges::iterator first = cut(begin);
  cut(end);
  cells_.erase(first, cells_.lower_bound(end));
  drop_clustered(begin, end, [&](const PastAccess& past) { return lies_in(past.region, begin, end); });
}

void AccessHistory::forget_before(const Clock& clock, const Region& region) {
  if (is_empty(region)) return;
  const std::uintptr_t begin = begin_of(region), end = end_of(region);
  Ranges::iterator cell = cut(begin);
  cut(end);
  for (; cell != cells_.end() && cell->first < end; ++cell)
    std::erase_if(cell->second.accesses, [&](const PastAccess& past) { return past.happened_before(clock); });
  drop_clustered(begin, end, [&](const PastAccess& past) {
    return past.happened_before(clock) && lies_in(past.region, begin, end);
  });
}

std::size_t AccessHistory::size() const noexcept {
  std::size_t count = 0;
  for (const Ranges* ranges : {&cells_, &clusters_})
    for (const auto& [begin, range] : *ranges) count += range.accesses.size();
  return count;
}

// Makes `address` a border between cells; returns the first cell at or after it.
AccessHistory::Ranges::iterator AccessHistory::cut(std::uintptr_t address) {
  const Ranges::iterator after = cells_.lower_bound(address);
  if (after == cells_.begin()) return after;
  const Ranges::iterator before = std::prev(after);
  if (before->second.end <= address) return after;
  const Ranges::iterator upper = cells_.emplace_hint(after, address, before->second);
  before->second.end = address;
  return upper;
}

// Merges all clusters that intersect [begin, end) into one that covers it.
std::vector<PastAccess>& AccessHistory::merged_cluster(std::uintptr_t begin, std::uintptr_t end) {
  auto cluster = first_beyond(clusters_, begin);
  if (cluster == clusters_.end() || cluster->first >= end)
    return clusters_.emplace_hint(cluster, begin, Range{end, {}})->second.accesses;
  if (cluster->first > begin) {
    auto node = clusters_.extract(cluster);
    node.key() = begin;
    cluster = clusters_.insert(std::move(node)).position;
  }
  Range& merged = cluster->second;
  merged.end = std::max(merged.end, end);
  for (auto next = std::next(cluster); next != clusters_.end() && next->first < merged.end;) {
    merged.end = std::max(merged.end, next->second.end);
    merged.accesses.insert(merged.accesses.end(), next->second.accesses.begin(), next->second.accesses.end());
    next = clusters_.erase(next);
  }
  return merged.accesses;
}

// Drops accesses from the clusters that intersect the range, and then empty clusters.
template <class Drop>
void AccessHistory::drop_clustered(std::uintptr_t begin, std::uintptr_t end, const Drop& drop) {
  for (auto cluster = first_beyond(clusters_, begin); cluster != clusters_.end() && cluster->first < end;) {
    std::erase_if(cluster->second.accesses, drop);
    cluster = cluster->second.accesses.empty() ? clusters_.erase(cluster) : std::next(cluster);
  }
}

}  // namespace lockstep::sim
