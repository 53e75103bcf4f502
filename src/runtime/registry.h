// The devices of this process, in one registry that is never destroyed. The first use chooses the backend of cuda:* by
// LOCKSTEP_DEVICES (device_choice.h); it can be replaced for a scope.
//
// docs/architecture.md lists the other per-process state.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string_view>
#include <vector>

#include "core/ranked_mutex.h"
#include "runtime/backend.h"
#include "runtime/device_thread.h"
#include "runtime/fork_guard.h"
#include "runtime/memory/caching_allocator.h"

namespace lockstep {

class PinnedAllocator;

/// Streams that a device gives out in turn. An exchange between processes must not wait for other work, so it shares no
/// stream with any.
enum class StreamPool : std::uint8_t { normal, high, exchanges };

/// Lockstep's state of one device.
struct DeviceState {
  DeviceState(Device name, Backend& backend);

  const Device device;
  Backend& backend;
  CachingAllocator allocator;
  DeviceThread thread;
  std::atomic<int> empty_storages = 0;  ///< Live storages of zero bytes, which the allocator does not count.

  /// Throws InvalidArgument if there is no stream `id`.
  StreamHandle stream(int id);
  /// The id of the pool's next stream.
  int next_pooled_stream(StreamPool pool);
  /// All streams made so far.
  std::vector<StreamHandle> streams();

 private:
  static constexpr int kPools = 3, kPoolSize = 8;  // ids 1..8, 9..16, 17..24; 0 is the default stream
  RankedMutex<LockRank::device_streams> mutex_;
  std::atomic<void*> natives_[1 + kPools * kPoolSize] = {};
  std::atomic<bool> made_[1 + kPools * kPoolSize] = {};
  int next_[kPools] = {};
};

/// A backend and its devices.
class DeviceSet {
 public:
  explicit DeviceSet(std::shared_ptr<Backend> backend);
  ~DeviceSet();

  int count() const noexcept { return int(states_.size()); }
  DeviceState& state(int index) noexcept { return *states_[std::size_t(index)]; }
  Backend& backend() noexcept { return *backend_; }
  PinnedAllocator& pinned() noexcept { return *pinned_; }
  /// Returns true if no memory of the devices is in use.
  bool idle() const;

 private:
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<PinnedAllocator> pinned_;
  std::vector<std::unique_ptr<DeviceState>> states_;
};

/// Throws InvalidArgument if there is no such device. Returns lost devices too, because their memory must be released.
DeviceState& device_state(Device device);

/// The GPUs that are not lost.
std::vector<Device> visible_gpus();
bool is_lost(Device device);  ///< False for a device that does not exist.
/// Throws InvalidArgument if there is no such device, and BackendError if it was lost.
void expect_visible(const char* op, Device device);

/// The current devices of cuda:*.
std::shared_ptr<DeviceSet> accelerators();
/// Makes `devices` the devices of cuda:*, and returns the previous ones.
std::shared_ptr<DeviceSet> exchange_accelerators(std::shared_ptr<DeviceSet> devices);
/// Keeps devices alive until the process ends, because their memory is still in use.
void retire(std::shared_ptr<DeviceSet> devices);

/// Prints, on standard error, an error of asynchronous work that no call has thrown. `where`: the device or the part of
/// the library. `end`: the event after which no call can throw it, such as "the program ended".
void print_unreported(std::string_view where, std::string_view end, const std::exception_ptr& error);

/// The stream on which this thread enqueues work for the device.
StreamHandle current_stream_handle(DeviceState& state);

/// Converts streams between users' and backends' handles.
class StreamAccess {
 public:
  static Stream make(Device device, int id) { return Stream(device, id); }
  /// Throws InvalidArgument if the stream's device is gone.
  static StreamHandle handle(const Stream& stream) { return device_state(stream.device()).stream(stream.id()); }
};

}  // namespace lockstep
