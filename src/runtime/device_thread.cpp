#include "runtime/device_thread.h"

#include <algorithm>
#include <utility>

#include "runtime/fork_guard.h"
#include "runtime/start_thread.h"

namespace lockstep {
namespace {

// One lock for the queues of all device threads: jobs are few and long, and a thread that waits must be woken both by
// its own queue and by what others finish. Each thread sleeps on a condition of its own, so that nobody is woken for
// nothing.
std::mutex mutex;
thread_local DeviceThread* this_device_thread = nullptr;

// Of the threads in wait_until(), a list whose entries lie on their stacks: whoever waits for what it has started must
// not fail.
struct Waiting {
  std::condition_variable& wake;
  Waiting* next;
};
Waiting* waiting = nullptr;

class WaitingGuard {
 public:
  explicit WaitingGuard(std::condition_variable& wake) : entry_{wake, waiting} { waiting = &entry_; }
  ~WaitingGuard() {
    Waiting** place = &waiting;
    while (*place != &entry_) place = &(*place)->next;
    *place = entry_.next;
  }
  WaitingGuard(const WaitingGuard&) = delete;
  WaitingGuard& operator=(const WaitingGuard&) = delete;

 private:
  Waiting entry_;
};

}  // namespace

DeviceThread::~DeviceThread() {
  {
    const std::scoped_lock lock(mutex);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void DeviceThread::submit(std::function<void()> job, const Context& start) {
  refuse_after_fork("DeviceThread");
  {
    const std::scoped_lock lock(mutex);
    if (!thread_.joinable()) thread_ = start_thread(device_.name(), [this] { run(); });
    jobs_.push_back({std::move(job), start});
  }
  wake_.notify_one();
}

DeviceThread* DeviceThread::current() noexcept { return this_device_thread; }

void DeviceThread::run() {
  this_device_thread = this;
  std::unique_lock lock(mutex);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (!run_next(lock)) return;
  }
}

// False if there is none that may run here.
bool DeviceThread::run_next(std::unique_lock<std::mutex>& lock) {
  const bool in_pass = context().in_pass;
  const auto next =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.context.in_pass || !in_pass; });
  if (next == jobs_.end()) return false;
  {
    Job job = std::move(*next);
    jobs_.erase(next);
    lock.unlock();
    const ContextScope scope(job.context);
    job.run();
  }
  lock.lock();
  return true;
}

void DeviceThread::wait_until(const std::function<bool()>& done) {
  DeviceThread* const self = this_device_thread;
  std::condition_variable own;
  std::condition_variable& wake = self ? self->wake_ : own;
  std::unique_lock lock(mutex);
  const WaitingGuard entry(wake);
  while (!done())
    if (!self || !self->run_next(lock)) wake.wait(lock);
}

void DeviceThread::notify() {
  const std::scoped_lock lock(mutex);  // nobody is between asking done() and sleeping
  for (const Waiting* each = waiting; each; each = each->next) each->wake.notify_one();
}

}  // namespace lockstep
