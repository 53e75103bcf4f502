// For backends: marks the time that an operation takes, and the call that enqueued it, if anybody records a trace. Safe
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
inline std::atomic<bool> trace_records = false;  // so that a span costs one load while nobody records
}

/// The host's call that enqueues an operation. Nothing, while nobody records.
struct EnqueueMark {
  std::chrono::steady_clock::time_point began, ended;
  int thread = 0;

  /// At the beginning of the call.
  static EnqueueMark begin() {
    return detail::trace_records.load(std::memory_order_relaxed) ? recorded() : EnqueueMark();
  }
  void end() {
    if (thread != 0) ended = std::chrono::steady_clock::now();
  }

 private:
  static EnqueueMark recorded();
};

/// What an operation does, besides its name.
struct TraceWork {
  TraceKind kind = TraceKind::kernel;
  double flops = 0;
  std::size_t bytes = 0;
  std::optional<TraceCollective> collective = {};
};

/// Its bytes are counted only while somebody records.
TraceWork trace_of(const LaunchInfo& launch) noexcept;
TraceWork trace_of(const Matmul& matmul) noexcept;
TraceWork trace_of(const FusedOp& op) noexcept;
TraceWork trace_of(const Copy& copy) noexcept;
/// Of rank `rank` of this process.
TraceWork trace_of(const CollectiveCall& call, std::size_t rank) noexcept;
inline const TraceWork& trace_of(const TraceWork& work) noexcept { return work; }

class TraceSpan {
 public:
  static constexpr int kCpu = -1;  ///< As a device; its stream is the thread's number.

  /// The name is a literal. Operation: what trace_of() takes, and is asked for only while somebody records.
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
    std::array<std::shared_ptr<Trace::State>, 2> states;  // the program's, and the environment's
    std::chrono::steady_clock::time_point began;
  };

  void begin(const char* name, int device, int stream, const TraceWork& work, const EnqueueMark& mark);
  void end() noexcept;

  std::optional<Recording> recording_;  // none, while nobody records
};

/// Records from now on for LOCKSTEP_TRACE, if that is set, and writes the file at the end of the process, but before
/// what was registered with std::atexit() before. To be called once.
void begin_trace_of_environment();

}  // namespace lockstep
