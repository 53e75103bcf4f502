// Finds races: two accesses to the same bytes, at least one of them a write, that no stream, event or wait of the host
// orders. Each operation declares its accesses; vector clocks tell which operations happen before others. The check
// runs when work is enqueued and ignores timing, so it also finds a race whose accesses happen to run in the right
// order. The caller guards the checker with a lock.
//
// All threads of the host share one clock: work that one thread has waited for counts as done for all threads.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/sim/access_history.h"

namespace lockstep::sim {

class RaceChecker {
 public:
  /// Returns the stream's number, counting from 0. The name is used in messages.
  int add_stream(std::string name);

  /// Adds an operation that is enqueued on a stream. If one of its accesses conflicts with an earlier access that is
  /// not ordered before it, throws RaceError and adds nothing.
  void access(int stream, const char* op, std::span<const MemoryAccess> accesses);

  struct RankAccesses {
    int stream = 0;
    std::vector<MemoryAccess> accesses;
    std::vector<std::size_t> senders;  ///< The ranks whose data arrive in this rank's memory.
  };
  /// Like access(), for a collective. Each rank's accesses happen on the rank's stream. A collective orders a rank only
  /// after the ranks whose data it receives: later work of its stream comes after earlier work of their streams.
  void access_together(const char* op, std::span<const RankAccesses> ranks);

  /// The clock of an event recorded on the stream now.
  const Clock& now(int stream) const noexcept { return streams_[std::size_t(stream)].clock; }
  /// Orders the stream's future work after `clock`.
  void wait(int stream, const Clock& clock);
  /// Called when the host has seen that all work before `clock` has ended.
  void host_synchronized(const Clock& clock);

  struct Unfinished {
    int stream = 0;
    std::string message;
  };
  /// Drops the accesses to memory that is being freed. If one of them is not known to the host to have ended, returns
  /// true and fills `unfinished`.
  bool forget(const char* op, const Region& region, Unfinished& unfinished);
  /// Checks a write of the host. Throws RaceError if the host has not waited for an earlier access to the memory.
  void host_writes(const Region& region) const;
  /// Notes that the accesses to this memory before `clock` have ended. This does not order accesses to other memory.
  void forget_before(const Clock& clock, const Region& region) { history_.forget_before(clock, region); }

  std::size_t history_size() const noexcept { return history_.size(); }

 private:
  void check(int stream, const char* op, std::span<const MemoryAccess> accesses);
  void remember(int stream, const char* op, std::span<const MemoryAccess> accesses);
  std::string unordered_with(const PastAccess& past) const;

  struct StreamClock {
    std::string name;
    Clock clock;
    std::uint64_t host_version = 0;  // the version of the host's clock that was last merged into `clock`
  };

  AccessHistory history_;
  std::vector<StreamClock> streams_;
  Clock host_;
  std::uint64_t host_version_ = 0;
};

}  // namespace lockstep::sim
