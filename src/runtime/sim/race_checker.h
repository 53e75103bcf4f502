// Happens-before over declared accesses, with vector clocks. It runs when work is enqueued: the order of work follows
// from streams and events alone, so a race is found whether or not timing shows it. The caller guards it with a lock.
//
// All threads of the host share one clock: what one of them has waited for counts as done for all.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/sim/access_history.h"

namespace lockstep::sim {

class RaceChecker {
 public:
  /// Returns the stream's number: they count from 0. The name goes into messages.
  int add_stream(std::string name);

  /// An operation is enqueued on a stream. Throws RaceError, and keeps nothing of the operation, if one of its
  /// accesses conflicts with an earlier one that is not ordered before it.
  void access(int stream, const char* op, std::span<const MemoryAccess> accesses);

  struct RankAccesses {
    int stream = 0;
    std::vector<MemoryAccess> accesses;
    std::vector<std::size_t> senders;  ///< The ranks whose data arrive in this rank's memory.
  };
  /// The same for an operation of several streams at once. Each rank's memory is used on its stream, and what comes
  /// next there is after all that its senders' streams had before: no more than data that arrive can prove.
  void access_together(const char* op, std::span<const RankAccesses> ranks);

  /// What comes before an event recorded on the stream now.
  const Clock& now(int stream) const noexcept { return streams_[std::size_t(stream)].clock; }
  /// What the stream does from now on comes after `clock`.
  void order_after(int stream, const Clock& clock);
  /// The host has seen that everything before `clock` has ended.
  void host_reached(const Clock& clock);

  struct Unfinished {
    int stream = 0;
    std::string message;
  };
  /// Memory goes away. If an access to it is not known to have ended, `unfinished` says so.
  bool forget(const char* op, const Region& region, Unfinished& unfinished);
  /// The host writes memory. Throws RaceError if an access to it is not known to have ended.
  void host_writes(const Region& region) const;
  /// What was done to this memory before `clock` has ended. Nothing else is known to have.
  void forget_before(const Clock& clock, const Region& region) { history_.forget_before(clock, region); }

  std::size_t history_size() const noexcept { return history_.size(); }

 private:
  void check(int stream, const char* op, std::span<const MemoryAccess> accesses);
  void remember(int stream, const char* op, std::span<const MemoryAccess> accesses);

  struct StreamClock {
    std::string name;
    Clock clock;
    std::uint64_t host_version = 0;  // of the host's clock that was joined last
  };

  AccessHistory history_;
  std::vector<StreamClock> streams_;
  Clock host_;
  std::uint64_t host_version_ = 0;
};

}  // namespace lockstep::sim
