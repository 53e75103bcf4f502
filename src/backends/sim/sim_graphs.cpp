#include "backends/sim/sim_graphs.h"

#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>

namespace lockstep::sim {

struct SimGraphs::Graph {
  explicit Graph(Backend& owner) : backend(owner) {}
  ~Graph() {
    for (const EventHandle event : events) backend.destroy_event(event);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Backend& backend;
  std::set<void*> streams;  // the captured streams, by StreamHandle::native
  std::vector<Call> calls;
  std::vector<EventHandle> events;
};

SimGraphs::SimGraphs(Backend& backend) : backend_(backend) {}
SimGraphs::~SimGraphs() = default;

void SimGraphs::begin_capture(StreamHandle origin) {
  const std::scoped_lock lock(mutex_);
  if (graph_) throw InvalidArgument("[capture] expected one capture at a time, got a second one");
  graph_ = std::make_unique<Graph>(backend_);
  graph_->streams.insert(origin.native);
  is_used_ = true;
}

bool SimGraphs::is_capturing(StreamHandle stream) {
  if (!is_used()) return false;
  const std::scoped_lock lock(mutex_);
  return captures(stream);
}

GraphHandle SimGraphs::end_capture(StreamHandle) { return take_graph().release(); }
void SimGraphs::abandon_capture(StreamHandle) noexcept { take_graph(); }
void SimGraphs::destroy(GraphHandle graph) noexcept { delete static_cast<Graph*>(graph); }

void SimGraphs::launch(StreamHandle, GraphHandle graph) {
  for (const Call& call : static_cast<Graph*>(graph)->calls) call();
}

std::unique_ptr<SimGraphs::Graph> SimGraphs::take_graph() noexcept {
  const std::scoped_lock lock(mutex_);
  for (auto& [event, own] : captured_) own = nullptr;
  is_used_ = !captured_.empty();
  return std::move(graph_);
}

bool SimGraphs::captures(StreamHandle stream) const { return graph_ && graph_->streams.contains(stream.native); }

bool SimGraphs::capture_call(StreamHandle stream, Call call) {
  const std::scoped_lock lock(mutex_);
  if (!captures(stream)) return false;
  graph_->calls.push_back(std::move(call));
  return true;
}

bool SimGraphs::capture_record(EventHandle event, StreamHandle stream) {
  if (!is_used()) return false;
  const std::scoped_lock lock(mutex_);
  if (!captures(stream)) {
    captured_.erase(event);
    is_used_ = graph_ || !captured_.empty();
    return false;
  }
  const EventHandle own = backend_.create_event(stream.device);
  graph_->events.push_back(own);
  captured_[event] = own;
  graph_->calls.push_back([this, own, stream] { backend_.record(own, stream); });
  return true;
}

bool SimGraphs::capture_wait(StreamHandle stream, EventHandle event) {
  if (!is_used()) return false;
  const std::scoped_lock lock(mutex_);
  const auto found = captured_.find(event);
  const EventHandle own = found == captured_.end() ? nullptr : found->second;
  if (found == captured_.end() && !captures(stream)) return false;
  if (!own)
    refuse_in_capture(found == captured_.end() ? "a wait for work that is not captured"
                                               : "a wait for captured work, which runs only when its graph is launched",
                      stream);
  graph_->streams.insert(stream.native);
  graph_->calls.push_back([this, own, stream] { backend_.wait(stream, own); });
  return true;
}

void SimGraphs::refuse(std::string_view what, EventHandle event) {
  if (!is_used()) return;
  const std::scoped_lock lock(mutex_);
  if (captured_.contains(event)) refuse_in_capture(what, "an event of captured work");
}

void SimGraphs::forget(EventHandle event) noexcept {
  if (!is_used()) return;
  const std::scoped_lock lock(mutex_);
  captured_.erase(event);
  is_used_ = graph_ || !captured_.empty();
}

}  // namespace lockstep::sim
