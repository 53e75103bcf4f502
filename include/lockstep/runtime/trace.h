// What ran where and when, for finding out whether work overlaps.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/runtime/device.h>

namespace lockstep {

/// One operation that a device ran. Times are microseconds since the trace began.
struct TraceEvent {
  std::string name;
  Device device;
  int stream = 0;       ///< Its id.
  double start_us = 0;  ///< Since the trace began.
  double end_us = 0;    ///< Since the trace began.
};

/// Records, while it lives, what simulated devices run. One at a time: a second one throws InvalidArgument.
class LOCKSTEP_API Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// What has ended so far, in the order of its ends.
  std::vector<TraceEvent> events() const;
  /// In the form that chrome://tracing and Perfetto read ("Trace Event Format").
  void write_json(std::ostream& out) const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
