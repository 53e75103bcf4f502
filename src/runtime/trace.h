// For backends: marks the time that an operation takes, if anybody records a trace.
#pragma once

#include <lockstep/runtime/trace.h>

#include <memory>

namespace lockstep {

class TraceSpan {
 public:
  TraceSpan(const char* name, int device, int stream);
  ~TraceSpan();
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  std::shared_ptr<Trace::State> state_;
  const char* name_;
  int device_, stream_;
  double start_us_ = 0;
};

}  // namespace lockstep
