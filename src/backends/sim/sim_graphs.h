// Graphs of simulated devices: the calls to the backend that were made during the capture, with their arguments.
// Launching a graph repeats the calls, so races, faults and traces are those of eager work.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string_view>

#include "core/ranked_mutex.h"
#include "runtime/graphs.h"

namespace lockstep::sim {

class SimGraphs final : public Graphs {
 public:
  explicit SimGraphs(Backend& backend);
  ~SimGraphs();

  void begin_capture(StreamHandle origin) override;
  bool is_capturing(StreamHandle stream) override;
  GraphHandle end_capture(StreamHandle origin) override;
  void abandon_capture(StreamHandle origin) noexcept override;
  void launch(StreamHandle origin, GraphHandle graph) override;
  void destroy(GraphHandle graph) noexcept override;

  // The backend calls these functions first. If one returns false, the stream is not captured, and the backend enqueues
  // the work now.
  /// Keeps `call`, which repeats the backend's call at each launch. All streams of the call belong to one capture.
  template <class Call>
  bool capture(StreamHandle stream, const Call& call) {
    return is_used() && capture_call(stream, call);
  }
  bool capture_record(EventHandle event, StreamHandle stream);
  bool capture_wait(StreamHandle stream, EventHandle event);

  using Graphs::refuse;
  void refuse(std::string_view what, EventHandle event);  ///< Throws InvalidArgument if the event is captured.
  void forget(EventHandle event) noexcept;                ///< Called when the event is destroyed.

 private:
  using Call = std::function<void()>;
  struct Graph;

  bool is_used() const noexcept { return is_used_.load(std::memory_order_acquire); }
  bool capture_call(StreamHandle stream, Call call);
  bool captures(StreamHandle stream) const;
  std::unique_ptr<Graph> take_graph() noexcept;

  Backend& backend_;
  std::atomic<bool> is_used_ = false;  // some member below is in use
  RankedMutex<LockRank::graphs> mutex_;
  // Guarded by the mutex:
  std::unique_ptr<Graph> graph_;  // the graph that is being captured
  /// Events that were last recorded in a capture, with the graph's own event for each; null if that capture has ended.
  std::map<EventHandle, EventHandle> captured_;
};

}  // namespace lockstep::sim
