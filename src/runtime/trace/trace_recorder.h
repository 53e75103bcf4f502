// The state of a trace, and the owners of traces. Safe from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

#include "core/ranked_mutex.h"
#include "runtime/trace/trace.h"

namespace lockstep {

struct Trace::State {
  using Clock = std::chrono::steady_clock;
  struct Record {
    const char* name;
    int device, stream;
    Clock::time_point began, ended;
    EnqueueMark mark;
    TraceWork work;
  };

  const Clock::time_point began = Clock::now();
  std::size_t most = std::numeric_limits<std::size_t>::max();  ///< Most records to keep; later ones are only counted.
  mutable RankedMutex<LockRank::trace_events> mutex;
  std::deque<Record> records;
  std::size_t dropped = 0;

  void add(const Record& record) noexcept;
  std::vector<TraceEvent> events() const;
  std::size_t dropped_so_far() const {
    const std::scoped_lock lock(mutex);
    return dropped;
  }
};

enum class TraceOwner : std::uint8_t { program, environment };

/// Makes `state` record the operations for the owner; null ends the recording. Throws InvalidArgument if the owner is
/// already recording.
void set_recording_state(TraceOwner owner, std::shared_ptr<Trace::State> state);

}  // namespace lockstep
