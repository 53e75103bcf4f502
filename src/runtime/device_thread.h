// One persistent host thread for a device: replicas run on it, and so does their part of backward.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include <lockstep/runtime/device.h>

namespace lockstep {

/// Runs jobs in the order given. Safe from any thread.
class DeviceThread {
 public:
  explicit DeviceThread(const Device& device) : device_(device) {}
  ~DeviceThread();  ///< Runs what is queued, then joins.
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  /// The job must not throw. The thread starts with the first job: BackendError where there can be none.
  void submit(std::function<void()> job);
  /// Whose job the caller is; null on other threads.
  static DeviceThread* current() noexcept;

  std::atomic<bool> runs_replica = false;  ///< Of a pass: whoever sets it.

  /// Blocks until `done()` holds; it is asked again after every notify(). If this thread is a device thread it runs its
  /// own queued jobs meanwhile, so that device threads waiting for each other cannot deadlock: inside a pass only those
  /// of passes, since others may begin one, which would wait for what is beneath it. What is JobLocal is not theirs.
  static void wait_until(const std::function<bool()>& done);
  /// To be called after what a wait_until looks at has changed.
  static void notify();

  /// While it lives, this thread is inside a pass of several replicas, and so are the jobs that it submits.
  class InPass {
   public:
    InPass() noexcept;
    ~InPass();
    InPass(const InPass&) = delete;
    InPass& operator=(const InPass&) = delete;

   private:
    const bool outer_;
  };
  static bool is_in_pass() noexcept;

 private:
  struct Job {
    std::function<void()> run;
    bool in_pass;
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
