#include "runtime/device_thread.h"

#include <condition_variable>

namespace lockstep {
namespace {

// One lock for the queues of all device threads: jobs are few and long, and a thread that waits must be woken
// both by its own queue and by what others finish.
std::mutex mutex;
std::condition_variable changed;
thread_local DeviceThread* this_device_thread = nullptr;

}  // namespace

DeviceThread::~DeviceThread() {
  {
    const std::scoped_lock lock(mutex);
    stopping_ = true;
  }
  changed.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DeviceThread::submit(std::function<void()> job) {
  {
    const std::scoped_lock lock(mutex);
    jobs_.push_back(std::move(job));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed.notify_all();
}

void DeviceThread::run() {
  this_device_thread = this;
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    run_next(lock);
  }
}

void DeviceThread::run_next(std::unique_lock<std::mutex>& lock) {
  const std::function<void()> job = std::move(jobs_.front());
  jobs_.pop_front();
  lock.unlock();
  job();
  lock.lock();
}

void DeviceThread::wait_until(const std::function<bool()>& done) {
  DeviceThread* const self = this_device_thread;
  std::unique_lock lock(mutex);
  while (!done()) {
    if (self && !self->jobs_.empty())
      self->run_next(lock);
    else
      changed.wait(lock);
  }
}

void DeviceThread::notify() {
  { const std::scoped_lock lock(mutex); }  // nobody is between asking done() and sleeping
  changed.notify_all();
}

}  // namespace lockstep
