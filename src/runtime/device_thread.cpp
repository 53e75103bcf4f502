#include "runtime/device_thread.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

// One lock for the queues of all device threads: jobs are few and long, and a thread that waits must be woken both by
// its own queue and by what others finish. Each thread sleeps on a condition of its own, so that nobody is woken for
// nothing.
std::mutex mutex;
std::vector<std::condition_variable*> waiting;  // of the threads in wait_until()
thread_local DeviceThread* this_device_thread = nullptr;

}  // namespace

DeviceThread::~DeviceThread() {
  {
    const std::scoped_lock lock(mutex);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void DeviceThread::submit(std::function<void()> job) {
  {
    const std::scoped_lock lock(mutex);
    jobs_.push_back(std::move(job));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  wake_.notify_one();
}

void DeviceThread::run() {
  this_device_thread = this;
  std::unique_lock lock(mutex);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
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
  std::condition_variable own;
  std::condition_variable& wake = self ? self->wake_ : own;
  std::unique_lock lock(mutex);
  waiting.push_back(&wake);
  while (!done()) {
    if (self && !self->jobs_.empty())
      self->run_next(lock);
    else
      wake.wait(lock);
  }
  waiting.erase(std::find(waiting.begin(), waiting.end(), &wake));
}

void DeviceThread::notify() {
  const std::scoped_lock lock(mutex);  // nobody is between asking done() and sleeping
  for (std::condition_variable* const wake : waiting) wake->notify_one();
}

}  // namespace lockstep
