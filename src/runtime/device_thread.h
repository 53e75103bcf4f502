// One persistent host thread for a device: replicas run on it, and so does their part of backward.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include <lockstep/runtime/device.h>

#include "core/context.h"

namespace lockstep {

/// Runs jobs in the order given. Safe from any thread.
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
  static Context of_submitter() noexcept { return {.in_pass = context().in_pass}; }
  /// Whose job the caller is; null on other threads.
  static DeviceThread* current() noexcept;

  std::atomic<bool> runs_replica = false;  ///< Of a pass: whoever sets it.

  /// Blocks until `done()` holds; it is asked again after every notify(). If this thread is a device thread it runs its
  /// own queued jobs meanwhile, so that device threads waiting for each other cannot deadlock: inside a pass
  /// (Context::in_pass) only those of passes, since others may begin one, which would wait for what is beneath it.
  static void wait_until(const std::function<bool()>& done);
  /// To be called after what a wait_until looks at has changed.
  static void notify();

 private:
  struct Job {
    std::function<void()> run;
    Context context;
  };

  void run();
  bool run_next(std::unique_lock<std::mutex>& lock);

  const Device device_;
  std::deque<Job> jobs_;
  std::condition_variable wake_;  // of this thread: for jobs, and in wait_until()
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
