// Persistent host threads. Each device has one: replicas run on it, and so does their part of backward. So have the
// buckets of each model: parallel/gradient_buckets_impl.h. Reservations, by which passes take devices. All is safe from
// any thread.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include <lockstep/runtime/device.h>

#include "core/context.h"
#include "core/ranked_mutex.h"

namespace lockstep {

/// Runs jobs in the order given.
class DeviceThread {
 public:
  explicit DeviceThread(const Device& device) : device_(device) {}
  ~DeviceThread();  ///< Runs what is queued, then joins.
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  /// The job must not throw. It runs in a copy of `start`: what is not handed to it there is as on a new thread. The
  /// device's thread starts with the first job: BackendError where there can be none.
  void submit(std::function<void()> job, const Context& start = of_submitter());
  /// Fresh, but of the submitter's pass.
  static Context of_submitter() noexcept {
    return {.in_pass = context().in_pass, .step_values = context().step_values};
  }
  /// Whose job the caller is; null on other threads.
  static DeviceThread* current() noexcept;

  /// Blocks until `done()` holds; it is asked again after every notify(), under no lock. The caller holds none either:
  /// if this thread is a device thread it runs its own queued jobs meanwhile, so that device threads waiting for each
  /// other cannot deadlock. Inside a pass (Context::in_pass) it runs only jobs of passes, since others may begin one,
  /// which would wait for what is beneath it.
  static void wait_until(const std::function<bool()>& done);
  /// To be called after what a wait_until looks at has changed.
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
  RankedCondition wake_;  // of this thread: for jobs, and in wait_until()
  bool stopping_ = false;
  bool reserved_ = false;
  std::thread thread_;
};

/// Devices taken by one pass, all at once, for as long as this lives. Passes that share a device come one after the
/// other, whole: replicas that wait for each other would otherwise wait for those of another pass, which wait for them.
/// Whoever waits for devices has taken none, and runs its own queue meanwhile. A device thread that reserves devices
/// beside its own takes its own too: else it could get another pass's replica on top.
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
