// Traces: the operations that ran, on which device and when, to see whether work overlaps. docs/tracing.md says how to
// read one.
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

/// The kind of an operation.
enum class TraceKind : std::uint8_t {
  kernel,            ///< A launch, a matrix product, or a fused operation.
  copy_from_host,    ///< To a device, from the host.
  copy_from_pinned,  ///< To a device, from page-locked memory: Tensor::pin_memory().
  copy_to_host,
  copy_within,   ///< From a device to itself; all copies on the CPU.
  copy_between,  ///< From one device to another.
  fill,          ///< Poisoning of freed memory.
  collective,    ///< One rank's part, including its wait for the other ranks.
};

/// One rank's input and output in a collective.
struct TraceCollective {
  DType dtype = kFloat32;        ///< Type of the elements.
  ReduceOp op = ReduceOp::sum;   ///< The reduction, if there is one.
  std::size_t elements_in = 0;   ///< Number of input elements.
  std::size_t elements_out = 0;  ///< Number of output elements.
  int rank = 0;                  ///< The rank among all processes' devices.
  int ranks = 1;                 ///< The number of ranks.
};

/// One operation that a device ran. Times are microseconds since the trace began.
struct TraceEvent {
  std::string name;
  Device device;
  int stream = 0;                      ///< The stream's id; on the CPU the host thread's number, from 1.
  double start_us = 0;                 ///< Since the trace began.
  double end_us = 0;                   ///< Since the trace began.
  TraceKind kind = TraceKind::kernel;  ///< The kind of the operation.
  double flops = 0;                    ///< As the operation declares them; 0 if unknown.
  /// The bytes that a launch declares as read and written, or that a copy moves. For a collective, the bytes that its
  /// errors report.
  std::size_t bytes = 0;
  std::optional<TraceCollective> collective = {};  ///< Only for a collective.
  /// The host call that enqueued the operation, if it was recorded too: its thread, from 1, its start and its end.
  int host_thread = 0;
  double enqueue_start_us = 0;  ///< See host_thread.
  double enqueue_end_us = 0;    ///< See host_thread.
};

/// Records the operations of simulated devices and of the CPU while it exists. Only one Trace may exist: a second one
/// throws InvalidArgument. (LOCKSTEP_TRACE=file, which a process writes at its end, is a separate trace and may
/// coexist.)
class LOCKSTEP_API Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// The operations that have ended so far, in the order in which they ended.
  std::vector<TraceEvent> events() const;
  /// Writes the JSON that Perfetto and chrome://tracing read ("Trace Event Format"), with the categories and arguments
  /// of PyTorch's profiler (Kineto).
  void write_json(std::ostream& out) const;
  /// Writes only the operations of one GPU and the host's calls: the file of one rank, for Holistic Trace Analysis.
  /// Throws InvalidArgument for the CPU.
  void write_json(std::ostream& out, Device device) const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
