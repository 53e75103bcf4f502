#include "runtime/registry.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <type_traits>
#include <utility>

#include <lockstep/core/error.h>
#include <lockstep/core/instruction_set.h>

#include "backends/cpu/cpu_backend.h"
#include "core/context.h"
#include "core/text.h"
#include "runtime/device_choice.h"
#include "runtime/memory/pinned_allocator.h"
#include "runtime/trace/trace.h"

namespace lockstep {
namespace {

std::shared_ptr<Backend> backend_from_environment() {
  instruction_set();  // throws here, rather than later in a kernel, if LOCKSTEP_CPU is invalid
  const char* const choice = std::getenv("LOCKSTEP_DEVICES");
  return choose_backend(choice ? choice : "");
}

// At exit: completes the enqueued work, and reports its errors.
void finish(DeviceSet& devices) noexcept {
  for (int i = 0; i < devices.count(); ++i)
    for (const StreamHandle& stream : devices.state(i).streams()) {
      try {
        devices.backend().synchronize_stream(stream);
      } catch (...) {
        print_unreported(devices.state(i).device.name(), "the program ended", std::current_exception());
      }
    }
}

// Never destroyed: tensors at namespace scope, or in other static objects, may outlive any static object here.
class Registry {
 public:
  static Registry& instance() {
    static Registry& registry = *new Registry;
    return registry;
  }

  DeviceState& cpu() noexcept { return cpu_.state(0); }

  std::shared_ptr<DeviceSet> accelerators() {
    refuse_after_fork("Device");
    const std::scoped_lock lock(mutex_);
    return accelerators_locked();
  }

  // Access to a device takes no lock, since it is frequent. Callers must not replace the devices while others use them.
  DeviceSet* current() {
    refuse_after_fork("Device");
    if (DeviceSet* devices = current_.load(std::memory_order_acquire)) return devices;
    const std::scoped_lock lock(mutex_);
    accelerators_locked();
    return current_.load(std::memory_order_relaxed);
  }

  std::shared_ptr<DeviceSet> exchange(std::shared_ptr<DeviceSet> devices) {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<DeviceSet> old = accelerators_locked();
    accelerators_ = std::move(devices);
    current_.store(accelerators_.get(), std::memory_order_release);
    return old;
  }

  void retire(std::shared_ptr<DeviceSet> devices) {
    const std::scoped_lock lock(mutex_);
    retired_.push_back(std::move(devices));
  }

 private:
  // The trace begins before the backend is made, so its exit handler runs last: the file is written after the other
  // handlers have completed all work.
  Registry() : cpu_((begin_trace_of_environment(), make_cpu_backend())) {}

  const std::shared_ptr<DeviceSet>& accelerators_locked() {
    if (!accelerators_) {
      accelerators_ = std::make_shared<DeviceSet>(backend_from_environment());
      current_.store(accelerators_.get(), std::memory_order_release);
      // The handler is registered after the backend's own handlers, so it runs before them. It does nothing in a forked
      // process, which lacks the threads that would complete the work.
      static const pid_t owner = ::getpid();
      std::atexit([] {
        if (::getpid() == owner) finish(*instance().current());
      });
    }
    return accelerators_;
  }

  DeviceSet cpu_;
  RankedMutex<LockRank::registry> mutex_;
  std::shared_ptr<DeviceSet> accelerators_;
  std::atomic<DeviceSet*> current_ = nullptr;
  std::vector<std::shared_ptr<DeviceSet>> retired_;
};

static_assert(std::is_same_v<CurrentStreams::Ids, decltype(Context::streams)>);

// The id of the current stream of a GPU.
std::int8_t& current_id(const Device& device) noexcept { return context().streams[std::size_t(device.index())]; }

}  // namespace

DeviceState::DeviceState(Device name, Backend& owner)
    : device(name),
      backend(owner),
      allocator(owner, name.index(), 0, dynamic_cast<AllocatorHooks*>(&owner)),
      thread(name) {}

StreamHandle DeviceState::stream(int id) {
  if (id < 0 || id > kPools * kPoolSize)
    throw InvalidArgument(text("[Stream] expected a stream of ", device, ", got id ", id));
  if (!made_[id].load(std::memory_order_acquire)) {
    const std::scoped_lock lock(mutex_);
    if (!made_[id].load(std::memory_order_relaxed)) {
      const auto priority = id > kPoolSize ? StreamPriority::high : StreamPriority::normal;
      natives_[id] = backend.create_stream(device.index(), id, priority);
      made_[id].store(true, std::memory_order_release);
    }
  }
  return {device.index(), id, natives_[id].load(std::memory_order_relaxed)};
}

int DeviceState::next_pooled_stream(StreamPool pool) {
  const std::scoped_lock lock(mutex_);
  const int place = next_[std::size_t(pool)]++ % kPoolSize;
  return 1 + int(pool) * kPoolSize + place;
}

std::vector<StreamHandle> DeviceState::streams() {
  std::vector<StreamHandle> result;
  for (int id = 0; id <= kPools * kPoolSize; ++id)
    if (made_[id].load(std::memory_order_acquire)) result.push_back(stream(id));
  return result;
}

DeviceSet::DeviceSet(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {
  if (backend_ && backend_->type() != DeviceType::cpu) watch_forks_of_gpus();
  if (backend_) pinned_ = std::make_unique<PinnedAllocator>(*backend_, dynamic_cast<AllocatorHooks*>(backend_.get()));
  for (int i = 0; backend_ && i < backend_->device_count(); ++i) {
    const Device device = backend_->type() == DeviceType::cpu ? Device() : Device::cuda(i);
    states_.push_back(std::make_unique<DeviceState>(device, *backend_));
  }
}

DeviceSet::~DeviceSet() = default;

bool DeviceSet::idle() const {
  for (const auto& state : states_)
    if (state->allocator.stats().in_use != 0 || state->empty_storages != 0) return false;
  return !pinned_ || pinned_->in_use() == 0;
}

DeviceState& device_state(Device device) {
  Registry& registry = Registry::instance();
  if (device.is_cpu()) return refuse_after_fork("Device"), registry.cpu();
  DeviceSet* const devices = registry.current();
  if (device.index() >= devices->count())
    throw InvalidArgument(text("[Device] expected one of ", visible_gpus().size(), " visible GPUs, got ", device));
  return devices->state(device.index());
}

std::vector<Device> visible_gpus() {
  DeviceSet* const devices = Registry::instance().current();
  std::vector<Device> visible;
  for (int i = 0; i < devices->count(); ++i)
    if (!devices->backend().is_lost(i)) visible.push_back(Device::cuda(i));
  return visible;
}

bool is_lost(Device device) {
  if (device.is_cpu()) return false;
  DeviceSet* const devices = Registry::instance().current();
  return device.index() < devices->count() && devices->backend().is_lost(device.index());
}

void expect_visible(const char* op, Device device) {
  device_state(device);
  if (!is_lost(device)) return;
  std::string left;
  for (const Device& other : visible_gpus()) left += text(left.empty() ? "" : ", ", other);
  throw BackendError(
      op, kDeviceLost, device.name(),
      text("the device was lost. What to do: leave it out; there is ", left.empty() ? "no other" : left));
}

std::shared_ptr<DeviceSet> accelerators() { return Registry::instance().accelerators(); }

std::shared_ptr<DeviceSet> exchange_accelerators(std::shared_ptr<DeviceSet> devices) {
  return Registry::instance().exchange(std::move(devices));
}

void retire(std::shared_ptr<DeviceSet> devices) { Registry::instance().retire(std::move(devices)); }

void print_unreported(std::string_view where, std::string_view end, const std::exception_ptr& error) {
  std::string type, words;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    words = text(": ", e.what());
  } catch (...) {
    type = " of unknown type";
  }
  std::cerr << text('[', where, "] an asynchronous error", type, " was not reported before ", end,
                    " (no synchronize() came after the work)", words, '\n');
}

StreamHandle current_stream_handle(DeviceState& state) {
  refuse_after_fork("Stream");
  if (state.device.is_cpu()) return {};
  return state.stream(current_id(state.device));
}

Stream current_stream(Device device) {
  const int id = device.is_cpu() ? 0 : current_id(device);
  device_state(device);
  return StreamAccess::make(device, id);
}

StreamGuard::StreamGuard(Stream stream) : device_(stream.device()), outer_id_(0) {
  StreamAccess::handle(stream);  // throws if the stream does not exist
  if (device_.is_cuda()) outer_id_ = std::exchange(current_id(device_), std::int8_t(stream.id()));
}
StreamGuard::~StreamGuard() {
  if (device_.is_cuda()) current_id(device_) = std::int8_t(outer_id_);
}

CurrentStreams::CurrentStreams() noexcept : ids_(context().streams) {}
CurrentStreams::Guard::Guard(const CurrentStreams& streams) noexcept
    : outer_(std::exchange(context().streams, streams.ids_)) {}
CurrentStreams::Guard::~Guard() { context().streams = outer_; }

}  // namespace lockstep
