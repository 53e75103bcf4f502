// A backend for tests of the allocators' policy: it only hands out memory and events, counts its calls, and fails on
// demand. Work on a stream ends when the test says so. Safe from any thread, apart from setting the public settings.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>

#include "runtime/backend.h"
#include "runtime/memory/allocator_hooks.h"

namespace lockstep {

inline constexpr std::size_t kMiB = std::size_t(1) << 20;
// Streams of one device.
inline constexpr StreamHandle kStream = {.device = 0, .id = 0};
inline constexpr StreamHandle kOther = {.device = 0, .id = 1};
inline constexpr StreamHandle kThird = {.device = 0, .id = 16};

class FakeBackend final : public Backend, public AllocatorHooks {
 public:
  struct Settings {
    DeviceType type = DeviceType::cuda;
    std::size_t memory_bytes = std::size_t(1) << 30;
    bool admit = true;
    int failing_records = 0;                          ///< How many of the next records throw.
    int failing_queries = 0;                          ///< The same for queries of events.
    int failing_events = 0;                           ///< The same for creations of events.
    int failing_copies = 0;                           ///< The same for copies.
    std::size_t pinned_bytes = std::size_t(1) << 30;  ///< The limit of page-locked memory.
    int queries_until_end = 0;  ///< If positive, all work ends at this query of an event, counted from now.
    /// Called during the next allocation or deallocation, as if by another thread.
    std::function<void()> on_allocation = {};
    std::function<void()> on_deallocation = {};
  };
  struct Counts {
    int allocations = 0;  ///< Successful ones.
    int refusals = 0;
    int deallocations = 0;
    int admissions = 0;
    int events = 0;  ///< Created and not yet destroyed.
    int records = 0;
    int queries = 0;
    int copies = 0;
    int waits = 0;  ///< For events; each wait lets all work of its stream end.
    int looks = 0;  ///< Calls of poll_failures().
  };
  struct Discard {
    int stream;
    void* memory;
    std::size_t bytes;
    bool operator==(const Discard&) const = default;
  };

  FakeBackend() = default;
  explicit FakeBackend(const Settings& initial) : settings(initial) {}
  ~FakeBackend() override {
    for (void* memory : pinned_) ::operator delete(memory, kAlignment);
  }

  Settings settings;

  Counts counts() const {
    const std::scoped_lock lock(mutex_);
    return counts_;
  }
  std::vector<Discard> discards() const {
    const std::scoped_lock lock(mutex_);
    return discards_;
  }
  std::vector<StreamPriority> priorities() const {
    const std::scoped_lock lock(mutex_);
    return priorities_;
  }
  std::size_t held_bytes() const {
    const std::scoped_lock lock(mutex_);
    return held_bytes_;
  }
  /// All work enqueued on the stream so far ends.
  void finish(StreamHandle stream) {
    const std::scoped_lock lock(mutex_);
    ended_[stream.id] = recorded_[stream.id];
  }

  DeviceType type() const noexcept override { return settings.type; }
  int device_count() const noexcept override { return 1; }
  DeviceProperties properties(int) const override { return {"fake", settings.memory_bytes, ""}; }

  void* allocate(int, std::size_t bytes) override {
    if (const auto meanwhile = taken(settings.on_allocation)) meanwhile();
    const std::scoped_lock lock(mutex_);
    if (bytes > settings.memory_bytes - held_bytes_) {
      ++counts_.refusals;
      return nullptr;
    }
    ++counts_.allocations;
    held_bytes_ += bytes;
    return ::operator new(bytes, kAlignment);
  }
  void deallocate(int, void* memory, std::size_t bytes) noexcept override {
    if (const auto meanwhile = taken(settings.on_deallocation)) meanwhile();
    const std::scoped_lock lock(mutex_);
    ++counts_.deallocations;
    held_bytes_ -= bytes;
    ::operator delete(memory, kAlignment);
  }
  void* allocate_pinned(std::size_t bytes) override {
    const std::scoped_lock lock(mutex_);
    if (bytes > settings.pinned_bytes - pinned_bytes_) {
      ++counts_.refusals;
      return nullptr;
    }
    ++counts_.allocations;
    pinned_bytes_ += bytes;
    void* const memory = ::operator new(bytes, kAlignment);
    pinned_.insert(memory);
    return memory;
  }
  void deallocate_pinned(void* memory, std::size_t bytes) noexcept override {
    const std::scoped_lock lock(mutex_);
    ++counts_.deallocations;
    pinned_bytes_ -= bytes;
    pinned_.erase(memory);
    ::operator delete(memory, kAlignment);
  }
  bool admits(int, std::size_t) override {
    const std::scoped_lock lock(mutex_);
    ++counts_.admissions;
    return settings.admit;
  }
  void discard(StreamHandle stream, void* memory, std::size_t bytes) noexcept override {
    const std::scoped_lock lock(mutex_);
    discards_.push_back({stream.id, memory, bytes});
  }

  EventHandle create_event(int device) override {
    const std::scoped_lock lock(mutex_);
    fail("create_event", device, settings.failing_events);
    ++counts_.events;
    return new FakeEvent;
  }
  void destroy_event(EventHandle event) noexcept override {
    const std::scoped_lock lock(mutex_);
    --counts_.events;
    delete static_cast<FakeEvent*>(event);
  }
  void record(EventHandle event, StreamHandle stream) override {
    const std::scoped_lock lock(mutex_);
    fail("record", stream.device, settings.failing_records);
    ++counts_.records;
    *static_cast<FakeEvent*>(event) = {stream.id, ++recorded_[stream.id]};
  }
  bool query_use(EventHandle event, void*, std::size_t) override { return query_event(event); }
  void host_writes(const void*, std::size_t) override {}
  bool query_event(EventHandle handle) override {
    const std::scoped_lock lock(mutex_);
    ++counts_.queries;
    fail("query_event", 0, settings.failing_queries);
    if (settings.queries_until_end > 0 && --settings.queries_until_end == 0) ended_ = recorded_;
    const auto& event = *static_cast<FakeEvent*>(handle);
    return event.place <= ended_[event.stream];
  }

  void synchronize_event(EventHandle handle) override {
    const std::scoped_lock lock(mutex_);
    ++counts_.waits;
    const int stream = static_cast<FakeEvent*>(handle)->stream;
    ended_[stream] = recorded_[stream];
  }
  void copy(StreamHandle stream, const Copy&) override {
    const std::scoped_lock lock(mutex_);
    fail("copy", stream.device, settings.failing_copies);
    ++counts_.copies;
  }

  void* create_stream(int, int, StreamPriority priority) override {
    const std::scoped_lock lock(mutex_);
    priorities_.push_back(priority);
    return nullptr;
  }
  void poll_failures() override {
    const std::scoped_lock lock(mutex_);
    ++counts_.looks;
  }

  // An allocator must call none of these.
  bool query_stream(StreamHandle) override { throw unexpected(); }
  void synchronize_stream(StreamHandle) override { throw unexpected(); }
  void wait(StreamHandle, EventHandle) override { throw unexpected(); }
  void launch(StreamHandle, const LaunchInfo&, KernelRef) override { throw unexpected(); }
  void matmul(StreamHandle, const Matmul&) override { throw unexpected(); }
  CommunicatorHandle create_communicator(std::span<const int>, const Peers&, const CommunicatorOptions&) override {
    throw unexpected();
  }
  void destroy_communicator(CommunicatorHandle) noexcept override {}
  void abort_communicator(CommunicatorHandle) noexcept override {}
  void collective(CommunicatorHandle, const CollectiveCall&) override { throw unexpected(); }

 private:
  static constexpr std::align_val_t kAlignment{512};

  struct FakeEvent {
    int stream = 0;
    int place = 0;  // the event's number on the stream
  };

  /// Returns a setting's callback, once. Call it without the mutex.
  std::function<void()> taken(std::function<void()>& call) {
    const std::scoped_lock lock(mutex_);
    return std::exchange(call, {});
  }
  static std::logic_error unexpected() { return std::logic_error("not a call that an allocator may make"); }
  static void fail(const char* api, int device, int& failures) {
    if (failures > 0 && failures-- > 0) throw BackendError(api, 1, Device::cuda(device).name(), "injected");
  }

  mutable std::mutex mutex_;
  Counts counts_;
  std::vector<Discard> discards_;
  std::vector<StreamPriority> priorities_;  // of the streams made so far
  std::size_t held_bytes_ = 0;
  std::size_t pinned_bytes_ = 0;
  std::set<void*> pinned_;       // not freed yet
  std::map<int, int> recorded_;  // by stream: number of events recorded
  std::map<int, int> ended_;     // by stream: how many of them have completed
};

}  // namespace lockstep
