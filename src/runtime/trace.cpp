#include "runtime/trace.h"

#include <lockstep/core/error.h>

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <new>
#include <ostream>

#include "core/ranked_mutex.h"

namespace lockstep {

struct Trace::State {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began = Clock::now();
  mutable RankedMutex<LockRank::trace_events> mutex;
  std::vector<TraceEvent> events;

  double now_us() const { return std::chrono::duration<double, std::micro>(Clock::now() - began).count(); }
};

namespace {

std::atomic<bool> recording = false;  // so that a span costs one load while nobody records
RankedMutex<LockRank::trace> current_mutex;
std::shared_ptr<Trace::State> current;

}  // namespace

Trace::Trace() : state_(std::make_shared<State>()) {
  const std::scoped_lock lock(current_mutex);
  if (current) throw InvalidArgument("[Trace] expected no other trace to be recorded, got a second one");
  current = state_;
  recording = true;
}

Trace::~Trace() {
  const std::scoped_lock lock(current_mutex);
  current = nullptr;
  recording = false;
}

std::vector<TraceEvent> Trace::events() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->events;
}

namespace {

// In microseconds, to the nanosecond, whatever the format of the stream.
std::string micros(double value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), value, std::chars_format::fixed, 3).ptr;
  return {digits.data(), end};
}

}  // namespace

void Trace::write_json(std::ostream& out) const {
  out << "{\"traceEvents\": [";
  const char* separator = "\n";
  for (const TraceEvent& event : events()) {
    out << separator << R"({"ph": "X", "name": ")" << event.name << R"(", "pid": ")" << event.device << R"(", "tid": )"
        << event.stream << R"(, "ts": )" << micros(event.start_us) << R"(, "dur": )"
        << micros(event.end_us - event.start_us) << '}';
    separator = ",\n";
  }
  out << "\n]}\n";
}

TraceSpan::TraceSpan(const char* name, int device, int stream) : name_(name), device_(device), stream_(stream) {
  if (!recording.load(std::memory_order_relaxed)) return;
  const std::scoped_lock lock(current_mutex);
  state_ = current;
  if (state_) start_us_ = state_->now_us();
}

TraceSpan::~TraceSpan() {
  if (!state_) return;
  const double end_us = state_->now_us();
  const std::scoped_lock lock(state_->mutex);
  try {
    state_->events.push_back({name_, Device::cuda(device_), stream_, start_us_, end_us});
  } catch (const std::bad_alloc&) {  // the work goes on, without its place in the trace
  }
}

}  // namespace lockstep
