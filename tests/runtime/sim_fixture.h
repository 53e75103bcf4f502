// A simulated backend alone, with the few operations that its tests use.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/sim/sim_backend.h"

namespace lockstep::sim {

inline Region floats(const float* data, std::size_t count) { return {data, count * sizeof(float), 1, 0}; }
inline MemoryAccess reads(Region region) { return {region, AccessKind::read}; }
inline MemoryAccess writes(Region region) { return {region, AccessKind::write}; }

template <class ErrorType, class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const ErrorType& error) {
    return error.what();
  } catch (...) {
    return "another type of error";
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options = {.count = 2}) : backend(options) {}
  ~Simulation() {
    backend.clear_faults();
    backend.drain();
    for (const auto& [memory, place] : memory_) backend.deallocate(place.first, memory, place.second);
  }

  SimBackend backend;

  StreamHandle stream(int device = 0, int id = 0) {
    auto [found, is_new] = streams_.try_emplace({device, id});
    if (is_new) found->second = {device, id, backend.create_stream(device, id, StreamPriority::normal)};
    return found->second;
  }

  float* allocate(int device, std::size_t count) {
    void* const memory = backend.allocate(device, count * sizeof(float));
    if (memory != nullptr) memory_[memory] = {device, count * sizeof(float)};
    return static_cast<float*>(memory);
  }
  void free(float* data) {
    const auto [device, bytes] = memory_.at(data);
    memory_.erase(data);
    backend.deallocate(device, data, bytes);
  }

  template <class Body>
  void launch(StreamHandle on, const char* name, const std::vector<MemoryAccess>& accesses, const Body& body) {
    backend.launch(on, {name, 0, accesses}, body);
  }
  void fill(StreamHandle on, float* data, std::size_t count, float value, const char* name = "fill") {
    launch(on, name, {writes(floats(data, count))}, [=](const KernelContext&) { std::fill_n(data, count, value); });
  }
  /// data += value
  void add(StreamHandle on, float* data, std::size_t count, float value) {
    launch(on, "add", {reads(floats(data, count)), writes(floats(data, count))}, [=](const KernelContext&) {
      for (std::size_t i = 0; i < count; ++i) data[i] += value;
    });
  }
  /// to = from
  void assign(StreamHandle on, float* to, const float* from, std::size_t count, const char* name = "assign") {
    launch(on, name, {reads(floats(from, count)), writes(floats(to, count))},
           [=](const KernelContext&) { std::copy_n(from, count, to); });
  }
  /// Launches a kernel that accesses nothing and ends when the promise is fulfilled.
  std::promise<void> block(StreamHandle on) {
    std::promise<void> gate;
    launch(on, "block", {}, [opened = gate.get_future().share()](const KernelContext&) { opened.wait(); });
    return gate;
  }

  void send(StreamHandle on, float* to, const std::vector<float>& from) {
    const std::size_t bytes = from.size() * sizeof(float);
    backend.copy(on, {to, from.data(), on.device, kHost, bytes, 1, bytes, bytes});
  }
  std::vector<float> receive(StreamHandle on, const float* from, std::size_t count) {
    std::vector<float> values(count);
    const std::size_t bytes = count * sizeof(float);
    backend.copy(on, {values.data(), from, kHost, on.device, bytes, 1, bytes, bytes});
    return values;
  }
  void send_peer(StreamHandle on, float* to, int to_device, const float* from, int from_device, std::size_t count) {
    const std::size_t bytes = count * sizeof(float);
    backend.copy(on, {to, from, to_device, from_device, bytes, 1, bytes, bytes});
  }

 private:
  std::map<std::pair<int, int>, StreamHandle> streams_;
  std::map<void*, std::pair<int, std::size_t>> memory_;
};

/// An event of a backend, destroyed at the end of its scope.
class ScopedEvent {
 public:
  explicit ScopedEvent(Backend& backend, int device = 0) : backend_(backend), handle_(backend.create_event(device)) {}
  ~ScopedEvent() { backend_.destroy_event(handle_); }
  ScopedEvent(const ScopedEvent&) = delete;
  ScopedEvent& operator=(const ScopedEvent&) = delete;
  operator EventHandle() const { return handle_; }

 private:
  Backend& backend_;
  EventHandle handle_;
};

/// Orders everything enqueued on `after` from now on after the work enqueued on `before` so far.
inline void order(Simulation& sim, StreamHandle before, StreamHandle after) {
  const ScopedEvent event(sim.backend, before.device);
  sim.backend.record(event, before);
  sim.backend.wait(after, event);
}

}  // namespace lockstep::sim
