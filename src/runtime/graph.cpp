#include "runtime/graph.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "runtime/graphs.h"
#include "runtime/registry.h"

namespace lockstep {
namespace {

constexpr std::chrono::microseconds kBetweenLooks(20);

bool is_same(const StreamHandle& a, const StreamHandle& b) { return a.device == b.device && a.id == b.id; }

}  // namespace

void refuse_in_capture(std::string_view what, std::string_view where) {
  throw InvalidArgument(text("[capture] expected only work on GPUs in a captured step, got ", what, " on ", where,
                             ". Copy inputs to the GPU before the step, and read results after it"));
}
void refuse_in_capture(std::string_view what, StreamHandle stream) {
  refuse_in_capture(what, text("stream ", stream.id, " of ", Device::cuda(stream.device)));
}

void Graphs::refuse(std::string_view what, StreamHandle stream) {
  if (is_capturing(stream)) refuse_in_capture(what, stream);
}

struct Graph::State {
  std::shared_ptr<DeviceSet> devices;
  Graphs* graphs = nullptr;
  StreamHandle origin;
  std::vector<StreamHandle> others;  // captured streams other than the origin
  std::vector<EventHandle> events;   // an event of the origin, then one of each other stream
  std::vector<CapturePool*> pools;   // by device; null for devices whose capture has not ended
  GraphHandle graph = nullptr;
  bool is_captured = false;
  CapturedUses used;  // communicators

  Backend& backend() { return devices->backend(); }
  CachingAllocator& allocator(std::size_t device) { return devices->state(int(device)).allocator; }

  void mark(std::size_t event, const StreamHandle& stream) { backend().record(events[event], stream); }

  void begin();
  void end();
  void end_pools() {
    for (std::size_t d = 0; d < pools.size(); ++d)
      if (!pools[d]) pools[d] = allocator(d).end_capture();
  }
  void wait_until_ended() noexcept;
  ~State();
};

void Graph::State::begin() {
  const std::vector<Device> gpus = visible_gpus();
  if (gpus.empty()) throw InvalidArgument("[capture] expected a GPU, got none: work on the CPU cannot be captured");
  devices = accelerators();
  graphs = backend().graphs();
  if (!graphs) throw InvalidArgument("[capture] this backend cannot capture graphs: only CUDA and simulated GPUs can");
  origin = current_stream_handle(device_state(gpus.front()));
  graphs->begin_capture(origin);
  for (int d = 0; d < devices->count(); ++d) {
    pools.push_back(nullptr);
    devices->state(d).allocator.begin_capture();
  }
  events.push_back(backend().create_event(origin.device));
  mark(0, origin);
  for (const Device& gpu : gpus)
    if (const StreamHandle stream = current_stream_handle(device_state(gpu)); !is_same(stream, origin))
      backend().wait(stream, events[0]);
}

void Graph::State::end() {
  for (int d = 0; d < devices->count(); ++d)
    for (const StreamHandle& stream : devices->state(d).streams())
      if (!is_same(stream, origin) && graphs->is_capturing(stream)) {
        others.push_back(stream);
        events.push_back(backend().create_event(d));
        mark(others.size(), stream);
        backend().wait(origin, events.back());
      }
  end_pools();
  graph = graphs->end_capture(origin);
  is_captured = true;
  used = graphs->take_used();
}

// Waits until the graph's last launch has ended. Ignores errors of the work, because its streams report them.
void Graph::State::wait_until_ended() noexcept try {
  while (!backend().query_event(events[0])) {
    std::this_thread::sleep_for(kBetweenLooks);
    backend().poll_failures();
  }
} catch (...) {  // the device is lost: none of its work is running any more
}

Graph::State::~State() {
  if (!devices) return;
  if (is_captured) {
    wait_until_ended();
    graphs->destroy(graph);
  } else if (graphs && !pools.empty()) {
    graphs->abandon_capture(origin);
    graphs->take_used();
    end_pools();
  }
  for (std::size_t d = 0; d < pools.size(); ++d)
    if (pools[d]) allocator(d).release(pools[d]);
  for (const EventHandle event : events) backend().destroy_event(event);
}

Graph::Graph(std::unique_ptr<State> state) : state_(std::move(state)) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

void Graph::launch() {
  State& s = *state_;
  for (std::size_t i = 0; i < s.others.size(); ++i) {
    s.mark(i + 1, s.others[i]);
    s.backend().wait(s.origin, s.events[i + 1]);
  }
  for (const auto& [use, failures] : s.used) use->watch_launch(s.origin, false);
  s.graphs->launch(s.origin, s.graph);
  for (const auto& [use, failures] : s.used) use->watch_launch(s.origin, true);
  s.mark(0, s.origin);
  for (const StreamHandle& stream : s.others) s.backend().wait(stream, s.events[0]);
}

bool Graph::has_failed() const noexcept {
  return std::ranges::any_of(state_->used, [](const auto& use) { return use.first->failures() != use.second; });
}

GraphCapture::GraphCapture() : state_(std::make_unique<Graph::State>()) { state_->begin(); }
GraphCapture::~GraphCapture() = default;

Graph GraphCapture::end() {
  state_->end();
  return Graph(std::move(state_));
}

}  // namespace lockstep
