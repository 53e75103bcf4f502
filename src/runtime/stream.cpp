#include <lockstep/runtime/stream.h>

#include <lockstep/core/error.h>
#include <lockstep/core/moved_from.h>

#include <exception>
#include <vector>

#include "core/failures.h"
#include "runtime/registry.h"

namespace lockstep {

// Owns the backend's event. Keeps the devices alive, so that an event may outlive their scope.
struct cuda::Event::State {
  std::shared_ptr<DeviceSet> devices;
  Backend& backend;
  Device device;
  EventHandle handle;

  ~State() { backend.destroy_event(handle); }
};

cuda::Event::Event(std::unique_ptr<State> state) : state_(std::move(state)) {}
cuda::Event::Event(cuda::Event&&) noexcept = default;
cuda::Event& cuda::Event::operator=(cuda::Event&&) noexcept = default;
cuda::Event::~Event() = default;

const cuda::Event::State& cuda::Event::state() const { return detail::checked_deref(state_, "Event", "an event"); }

Device cuda::Event::device() const { return state().device; }
bool cuda::Event::query() const {
  Backend& backend = state().backend;
  if (backend.query_event(state_->handle)) return true;
  backend.poll_failures();  // else a caller that loops until true would never see NCCL fail
  return false;
}
void cuda::Event::synchronize() const {
  refuse_after_fork("Event");
  state().backend.synchronize_event(state_->handle);
}

Stream Stream::from_pool(Device device, StreamPriority priority) {
  const StreamPool pool = priority == StreamPriority::high ? StreamPool::high : StreamPool::normal;
  return {device, device_state(device).next_pooled_stream(pool)};
}

Stream Stream::default_stream(Device device) {
  device_state(device);
  return {device, 0};
}

void Stream::synchronize() const { device_state(device_).backend.synchronize_stream(StreamAccess::handle(*this)); }

bool Stream::query() const { return device_state(device_).backend.query_stream(StreamAccess::handle(*this)); }

void Stream::wait(const cuda::Event& event) const {
  const cuda::Event::State& marked = event.state();
  DeviceState& state = device_state(device_);
  if (&state.backend != &marked.backend) return event.synchronize();  // between the CPU and a GPU the host waits
  state.backend.wait(StreamAccess::handle(*this), marked.handle);
}

cuda::Event Stream::record() const {
  DeviceState& state = device_state(device_);
  const StreamHandle stream = StreamAccess::handle(*this);
  EventHandle handle = state.backend.create_event(device_.index());
  cuda::Event event(
      std::unique_ptr<cuda::Event::State>(new cuda::Event::State{accelerators(), state.backend, device_, handle}));
  state.backend.record(handle, stream);
  return event;
}

void synchronize(Device device) {
  DeviceState& state = device_state(device);
  std::vector<std::exception_ptr> failures;
  for (const StreamHandle& stream : state.streams()) try {
      state.backend.synchronize_stream(stream);
    } catch (...) {
      failures.push_back(std::current_exception());
    }
  if (!failures.empty()) throw_first(failures);
}

void cuda::synchronize() {
  const std::vector<Device> gpus = visible_gpus();
  if (gpus.empty()) throw InvalidArgument("[synchronize] expected a GPU, got none visible");
  std::exception_ptr first;
  for (const Device& gpu : gpus) try {
      lockstep::synchronize(gpu);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  if (first) std::rethrow_exception(first);
}

void cuda::synchronize(int index) { lockstep::synchronize(Device::cuda(index)); }

void cuda::synchronize(Device device) {
  if (device.is_cpu()) throw InvalidArgument("[synchronize] expected a GPU, got cpu");
  lockstep::synchronize(device);
}

}  // namespace lockstep
