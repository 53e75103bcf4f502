// What ran where and when, for finding out whether work overlaps. docs/tracing.md says how to read a trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/core/dtype.h>
#include <lockstep/core/export.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/device.h>

namespace lockstep {

/// What an operation does.
enum class TraceKind : std::uint8_t {
  kernel,            ///< A launch, a matrix product, a heavy operation.
  copy_from_host,    ///< To a device, from the host.
  copy_from_pinned,  ///< The same from page-locked memory: Tensor::pin_memory().
  copy_to_host,
  copy_within,   ///< From a device to itself; on the CPU any copy.
  copy_between,  ///< From one device to another.
  fill,          ///< Memory that is given back is poisoned.
  collective,    ///< One rank's part, the wait for the others with it.
};

/// What a rank sends and receives in a collective.
struct TraceCollective {
  DType dtype = kFloat32;        ///< Of the elements.
  ReduceOp op = ReduceOp::sum;   ///< How they are reduced, if they are.
  std::size_t elements_in = 0;   ///< That the rank gives.
  std::size_t elements_out = 0;  ///< That the rank gets.
  int rank = 0;                  ///< Of all processes' devices.
  int ranks = 1;                 ///< How many there are.
};

/// One operation that a device ran. Times are microseconds since the trace began.
struct TraceEvent {
  std::string name;
  Device device;
  int stream = 0;                      ///< Its id; on the CPU the host's thread, from 1.
  double start_us = 0;                 ///< Since the trace began.
  double end_us = 0;                   ///< Since the trace began.
  TraceKind kind = TraceKind::kernel;  ///< What it does.
  double flops = 0;                    ///< As the operation declares them; 0 for unknown.
  /// What a launch reads and writes, as it declares; what a copy moves; what a collective works on, as its errors tell.
  std::size_t bytes = 0;
  std::optional<TraceCollective> collective = {};  ///< Of a collective.
  /// The host's call that enqueued it, if that was recorded too: its thread, from 1, its begin and its end.
  int host_thread = 0;
  double enqueue_start_us = 0;  ///< See host_thread.
  double enqueue_end_us = 0;    ///< See host_thread.
};

/// Records, while it lives, what simulated devices and the CPU run. One at a time: a second one throws InvalidArgument.
/// (The trace of LOCKSTEP_TRACE=file, which a process writes at its end, is another one.)
class LOCKSTEP_API Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// What has ended so far, in the order of its ends.
  std::vector<TraceEvent> events() const;
  /// In the form that Perfetto and chrome://tracing read ("Trace Event Format"), with the categories and arguments of
  /// PyTorch's profiler (Kineto).
  void write_json(std::ostream& out) const;
  /// The same of one GPU and the host: one rank's file, as Holistic Trace Analysis reads them. Throws InvalidArgument
  /// for the CPU.
  void write_json(std::ostream& out, Device device) const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
