// One persistent host thread for a device: replicas run on it, and so does their part of backward.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lockstep {

/// Runs jobs in the order given. Safe from any thread.
class DeviceThread {
 public:
  DeviceThread() = default;
  ~DeviceThread();  ///< Runs what is queued, then joins.
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  /// The job must not throw. The thread starts with the first job.
  void submit(std::function<void()> job);

  /// Blocks until `done()` holds; it is asked again after every notify(). If this thread is a device thread
  /// it runs its own queued jobs meanwhile, so that device threads waiting for each other cannot deadlock.
  static void wait_until(const std::function<bool()>& done);
  /// To be called after what a wait_until looks at has changed.
  static void notify();

 private:
  void run();
  void run_next(std::unique_lock<std::mutex>& lock);

  std::deque<std::function<void()>> jobs_;
  std::condition_variable wake_;  // of this thread: for jobs, and in wait_until()
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
