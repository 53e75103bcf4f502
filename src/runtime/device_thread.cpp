#include "runtime/device_thread.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "core/start_thread.h"
#include "runtime/fork_guard.h"

namespace lockstep {

// One lock guards the queues of all device threads, because jobs are few and long, and because a waiting thread has to
// wake both for a job in its own queue and for a result of another thread. Each thread sleeps on its own condition
// variable, so that no thread is woken without a reason.
constinit DeviceThread::Mutex DeviceThread::mutex;

namespace {

thread_local DeviceThread* this_device_thread = nullptr;

// The number of calls of notify(); changed with the lock held. A waiting thread reads this number before it calls
// done(), and sleeps only if the number has not changed since. So done() needs no lock, and no notification is missed.
std::atomic<std::uint64_t> changes = 0;

// The threads that sleep in wait_until(). The entries of this list are on the threads' stacks, because waiting must not
// fail and therefore must not allocate.
struct Sleeper {
  RankedCondition& wake;
  Sleeper* next;
};
Sleeper* sleepers = nullptr;

class SleeperGuard {
 public:
  explicit SleeperGuard(RankedCondition& wake) : entry_{wake, sleepers} { sleepers = &entry_; }
  ~SleeperGuard() {
    Sleeper** place = &sleepers;
    while (*place != &entry_) place = &(*place)->next;
    *place = entry_.next;
  }
  SleeperGuard(const SleeperGuard&) = delete;
  SleeperGuard& operator=(const SleeperGuard&) = delete;

 private:
  Sleeper entry_;
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
    if (jobs_.empty()) return;
    run_next(lock);
  }
}

// Returns the first job that this thread may run now (inside a pass only jobs of passes, see wait_until()), or the end.
// Call it with the lock held.
std::deque<DeviceThread::Job>::iterator DeviceThread::next_job() {
  const bool in_pass = context().in_pass;
  return std::ranges::find_if(jobs_, [&](const Job& job) { return job.context.in_pass || !in_pass; });
}

// Runs the next job, which must exist. The lock is released while the job runs.
void DeviceThread::run_next(std::unique_lock<Mutex>& lock) {
  {
    const auto next = next_job();
    Job job = std::move(*next);
    jobs_.erase(next);
    lock.unlock();
    const ContextScope scope(job.context);
    job.run();
  }
  lock.lock();
}

void DeviceThread::wait_until(const std::function<bool()>& done) {
  expect_no_lock("DeviceThread::wait_until");
  DeviceThread* const self = this_device_thread;
  const auto has_job = [self] { return self && self->next_job() != self->jobs_.end(); };
  RankedCondition own;
  RankedCondition& wake = self ? self->wake_ : own;
  while (true) {
    const std::uint64_t seen = changes.load(std::memory_order_acquire);
    if (done()) return;
    std::unique_lock lock(mutex);
    {
      const SleeperGuard entry(wake);
      wake.wait(lock, [&] { return changes != seen || has_job(); });
    }
    if (changes == seen && has_job()) self->run_next(lock);
  }
}

void DeviceThread::notify() {
  const std::scoped_lock lock(mutex);
  changes.fetch_add(1, std::memory_order_release);
  for (const Sleeper* each = sleepers; each; each = each->next) each->wake.notify_one();
}

Reservation::Reservation(std::vector<DeviceThread*> threads) : threads_(std::move(threads)) {
  DeviceThread* const caller = DeviceThread::current();
  if (caller && std::ranges::find(threads_, caller) == threads_.end()) threads_.push_back(caller);
  DeviceThread::wait_until([this] { return take(); });
}

bool Reservation::take() {
  const std::scoped_lock lock(DeviceThread::mutex);
  if (std::ranges::any_of(threads_, &DeviceThread::reserved_)) return false;
  for (DeviceThread* const thread : threads_) thread->reserved_ = true;
  return true;
}

Reservation::~Reservation() {
  {
    const std::scoped_lock lock(DeviceThread::mutex);
    for (DeviceThread* const thread : threads_) thread->reserved_ = false;
  }
  DeviceThread::notify();
}

}  // namespace lockstep
