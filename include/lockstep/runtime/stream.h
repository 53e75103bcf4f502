// Streams and events. Work enqueued on one stream runs in order; an event orders work across streams.
// A stream of the CPU runs its work at once, on the thread that enqueues it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include <lockstep/core/export.h>
#include <lockstep/runtime/device.h>

namespace lockstep {

namespace cuda {
class Event;
}

/// The priority of a stream from a device's pool, as in CUDA.
enum class StreamPriority : std::uint8_t { normal, high };

/// Names one of a device's streams: a small value. Streams live as long as their device. Using a stream after its
/// device is gone throws InvalidArgument. Any thread may use any stream.
class LOCKSTEP_API Stream {
 public:
  /// The next stream of the device's pool, round robin; never the default stream.
  static Stream from_pool(Device device, StreamPriority priority = StreamPriority::normal);
  static Stream default_stream(Device device);  ///< The current stream, unless a StreamGuard changes it.

  Device device() const noexcept { return device_; }
  int id() const noexcept { return id_; }  ///< 0 is the default stream.

  /// Waits on the host for all work enqueued so far; throws the first error of that work, once.
  void synchronize() const;
  /// Returns true if all work enqueued so far has ended. Throws as synchronize() does.
  bool query() const;
  /// Work that is enqueued on this stream later starts after the event. The host waits only if one of stream and event
  /// belongs to the CPU and the other to a GPU.
  void wait(const cuda::Event& event) const;
  /// Returns an event that marks the work enqueued so far.
  cuda::Event record() const;

  bool operator==(const Stream&) const = default;

 private:
  friend class StreamAccess;
  Stream(Device device, int id) : device_(device), id_(std::int16_t(id)) {}

  Device device_;
  std::int16_t id_ = 0;
};

/// A point in a stream's work. A moved-from event throws InvalidArgument.
class LOCKSTEP_API cuda::Event {
 public:
  Event(Event&&) noexcept;             ///< Takes over the other event's point.
  Event& operator=(Event&&) noexcept;  ///< Destroys the event held before.
  ~Event();

  Device device() const;
  /// Returns true if the work before the event has ended.
  bool query() const;
  /// Waits on the host for the work before the event; throws that work's first error, once.
  void synchronize() const;

 private:
  friend class lockstep::Stream;
  struct State;
  const State& state() const;
  explicit Event(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The stream on which this thread's work for `device` is enqueued: the stream of the innermost StreamGuard, else the
/// default stream.
LOCKSTEP_API Stream current_stream(Device device);

/// The current streams of a thread, for another thread that works on its behalf.
class LOCKSTEP_API CurrentStreams {
 public:
  using Ids = std::array<std::int8_t, 64>;  ///< One for each cuda:i; the CPU has only one stream.

  CurrentStreams() noexcept;  ///< Copies the current streams of the calling thread.

  /// Makes these streams current on the calling thread, for a scope.
  class LOCKSTEP_API Guard {
   public:
    explicit Guard(const CurrentStreams& streams) noexcept;
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Ids outer_;
  };

 private:
  Ids ids_;
};

/// Waits for all streams of the device. Throws the first error of their work, with the errors of other streams
/// attached.
LOCKSTEP_API void synchronize(Device device);
namespace cuda {
/// Waits for all streams of all visible GPUs, then throws their first error. Throws InvalidArgument if there is no GPU.
LOCKSTEP_API void synchronize();
LOCKSTEP_API void synchronize(int index);  ///< Waits for cuda:index.
/// Waits for that GPU. Throws InvalidArgument for the CPU.
LOCKSTEP_API void synchronize(Device device);
}  // namespace cuda

/// Makes a stream current for its device on this thread, for a scope.
class LOCKSTEP_API StreamGuard {
 public:
  explicit StreamGuard(Stream stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Device device_;
  int outer_id_;
};

}  // namespace lockstep
