// Persistent host threads. Each device has one, which runs the device's replicas and their part of backward. The
// buckets of each model have one too (parallel/gradient_buckets_impl.h). Also Reservation, with which a pass takes its
// devices. All of this is safe from any thread.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include <lockstep/runtime/device.h>

#include "core/context.h"
#include "core/ranked_mutex.h"

namespace lockstep {

/// Runs jobs in the order of submission.
class DeviceThread {
 public:
  explicit DeviceThread(const Device& device) : device_(device) {}
  ~DeviceThread();  ///< Runs the queued jobs, then joins.
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  /// The job must not throw. It runs in a copy of `start`; other thread-local state is as on a new thread. The first
  /// job starts the thread. Throws BackendError if the thread cannot be started.
  void submit(std::function<void()> job, const Context& start = of_submitter());
  /// A fresh context, except for in_pass and replay_values, which are copied from the calling thread's context.
  static Context of_submitter() noexcept {
    return {.in_pass = context().in_pass, .replay_values = context().replay_values};
  }
  /// Returns the device thread that the caller runs on; null on other threads.
  static DeviceThread* current() noexcept;

  /// Blocks until `done()` returns true. Calls done() again after every notify(), with no lock held; the caller must
  /// hold none either. A device thread runs its own queued jobs while it waits, so that device threads that wait for
  /// each other cannot deadlock. Inside a pass (Context::in_pass) it runs only jobs of passes: another job might begin
  /// a second pass on top of this stack, and that pass would wait for the first one.
  static void wait_until(const std::function<bool()>& done);
  /// Call this after a change of state that a wait_until() may depend on.
  static void notify();

 private:
  friend class Reservation;
  using Mutex = RankedMutex<LockRank::device_threads>;
  struct Job {
    std::function<void()> run;
    Context context;
  };

  void run();
  std::deque<Job>::iterator next_job();
  void run_next(std::unique_lock<Mutex>& lock);

  static Mutex mutex;

  const Device device_;
  std::deque<Job> jobs_;
  RankedCondition wake_;  // the thread sleeps on it until a job arrives, and in wait_until()
  bool stopping_ = false;
  bool reserved_ = false;
  std::thread thread_;
};

/// Takes several devices for one pass, all at once, for a scope. So passes that share a device run one after the other.
/// (If two passes interleaved, each could wait for a replica that is queued behind a replica of the other pass.) A
/// waiting reservation holds no device, and its thread runs its own queue meanwhile. A device thread that reserves
/// other devices also reserves its own, so that it does not run another pass's replica on top of its stack.
class Reservation {
 public:
  explicit Reservation(std::vector<DeviceThread*> threads);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

 private:
  bool take();

  std::vector<DeviceThread*> threads_;
};

}  // namespace lockstep
