#include "backends/sim/race_checker.h"

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep::sim {
namespace {

bool join(Clock& into, const Clock& other) {
  bool changed = false;
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i)
    if (into[i] < other[i]) {
      into[i] = other[i];
      changed = true;
    }
  return changed;
}

}  // namespace

int RaceChecker::add_stream(std::string name) {
  const std::size_t index = streams_.size();
  streams_.push_back({std::move(name), Clock(index + 1), 0});
  return int(index);
}

void RaceChecker::access(int stream, const char* op, std::span<const MemoryAccess> accesses) {
  check(stream, op, accesses);
  remember(stream, op, accesses);
}

void RaceChecker::access_together(const char* op, std::span<const RankAccesses> ranks) {
  for (const RankAccesses& rank : ranks) check(rank.stream, op, rank.accesses);
  std::vector<Clock> entered;
  for (const RankAccesses& rank : ranks) entered.push_back(now(rank.stream));
  for (const RankAccesses& rank : ranks) {
    remember(rank.stream, op, rank.accesses);
    for (const std::size_t sender : rank.senders) wait(rank.stream, entered[sender]);
  }
}

void RaceChecker::check(int stream, const char* op, std::span<const MemoryAccess> accesses) {
  StreamClock& own = streams_[std::size_t(stream)];
  if (own.host_version != host_version_) {
    join(own.clock, host_);
    own.host_version = host_version_;
  }
  for (const MemoryAccess& access : accesses) {
    if (is_empty(access.region)) continue;
    const PastAccess* past = history_.find_conflict(normalized(access.region), access.kind, own.clock);
    if (past == nullptr) continue;
    throw RaceError(text("[sim] '", op, "' ", access.kind == AccessKind::write ? "writes " : "reads ",
                         access.region.bytes(), " bytes at ", access.region.data, " on ", own.name,
                         unordered_with(*past)));
  }
}

void RaceChecker::remember(int stream, const char* op, std::span<const MemoryAccess> accesses) {
  StreamClock& own = streams_[std::size_t(stream)];
  const std::uint64_t epoch = ++own.clock[std::size_t(stream)];
  for (const MemoryAccess& access : accesses) {
    if (is_empty(access.region)) continue;
    history_.remember({normalized(access.region), access.kind, stream, epoch, op}, own.clock, host_);
  }
}

std::string RaceChecker::unordered_with(const PastAccess& past) const {
  return text(", unordered with '", past.op, "' that ", past.kind == AccessKind::write ? "wrote" : "read", " them on ",
              streams_[std::size_t(past.stream)].name);
}

void RaceChecker::wait(int stream, const Clock& clock) { join(streams_[std::size_t(stream)].clock, clock); }

void RaceChecker::host_synchronized(const Clock& clock) {
  if (join(host_, clock)) ++host_version_;
}

bool RaceChecker::forget(const char* op, const Region& region, Unfinished& unfinished) {
  const PastAccess* const past = history_.find_conflict(region, AccessKind::write, host_);
  if (past != nullptr) {
    unfinished.stream = past->stream;
    unfinished.message =
        text("[sim] '", op, "' takes ", region.bytes(), " bytes at ", region.data, unordered_with(*past));
  }
  history_.forget(region);
  return past != nullptr;
}

void RaceChecker::host_writes(const Region& region) const {
  const PastAccess* const past = history_.find_conflict(region, AccessKind::write, host_);
  if (past == nullptr) return;
  throw RaceError(text("[sim] the host writes ", region.bytes(), " bytes at ", region.data, unordered_with(*past)));
}

}  // namespace lockstep::sim
