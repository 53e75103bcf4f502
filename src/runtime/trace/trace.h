// For backends: records the time of an operation, and of the call that enqueued it, while a trace is recorded. Safe
// from any thread.
#pragma once

#include <lockstep/runtime/trace.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "runtime/backend.h"

namespace lockstep {

namespace detail {
inline std::atomic<bool> trace_records = false;  // a span costs one load while nothing is recorded
}

/// The host call that enqueues an operation. Empty while nothing is recorded.
struct EnqueueMark {
  std::chrono::steady_clock::time_point began, ended;
  int thread = 0;

  /// Call this at the beginning of the host call.
  static EnqueueMark begin() {
    return detail::trace_records.load(std::memory_order_relaxed) ? recorded() : EnqueueMark();
  }
  void end() {
    if (thread != 0) ended = std::chrono::steady_clock::now();
  }

 private:
  static EnqueueMark recorded();
};

/// A description of an operation, without its name.
struct TraceWork {
  TraceKind kind = TraceKind::kernel;
  double flops = 0;
  std::size_t bytes = 0;
  std::optional<TraceCollective> collective = {};
};

/// The sum of the accesses' bytes is computed only while a trace is recorded.
TraceWork trace_of(const LaunchInfo& launch) noexcept;
TraceWork trace_of(const Matmul& matmul) noexcept;
TraceWork trace_of(const FusedOp& op) noexcept;
TraceWork trace_of(const Copy& copy) noexcept;
/// Describes the part of one rank; `rank` is an index into call.parts.
TraceWork trace_of(const CollectiveCall& call, std::size_t rank);
inline const TraceWork& trace_of(const TraceWork& work) noexcept { return work; }

class TraceSpan {
 public:
  static constexpr int kCpu = -1;  ///< A device number for the CPU; its stream is the thread's number.

  /// The name is a string literal. trace_of(operation) is called only while a trace is recorded.
  template <class Operation = TraceWork>
  TraceSpan(const char* name, int device, int stream, const Operation& operation = {}, const EnqueueMark& mark = {}) {
    if (detail::trace_records.load(std::memory_order_relaxed)) begin(name, device, stream, trace_of(operation), mark);
  }
  ~TraceSpan() {
    if (recording_) end();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  struct Recording {
    const char* name;
    int device, stream;
    TraceWork work;
    EnqueueMark mark;
    std::array<std::shared_ptr<Trace::State>, 2> states;  // by TraceOwner: of a Trace, and of LOCKSTEP_TRACE
    std::chrono::steady_clock::time_point began;
  };

  void begin(const char* name, int device, int stream, const TraceWork& work, const EnqueueMark& mark);
  void end() noexcept;

  std::optional<Recording> recording_;  // empty while nothing is recorded
};

/// If LOCKSTEP_TRACE is set, records from now on, and writes the file at exit, before the std::atexit() handlers that
/// were registered earlier. Call it once.
void begin_trace_of_environment();

}  // namespace lockstep
