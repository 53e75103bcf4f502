#include "data/task_queue.h"

#include <lockstep/core/error.h>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "core/ranked_mutex.h"
#include "runtime/fork_guard.h"

namespace lockstep::data {
namespace {

thread_local bool runs_a_task = false;

// oneTBB's thread limit is per process, and the smallest requested limit applies. Loader tasks mostly wait, for files
// or for each other, so this class raises the limit to one thread per core plus one per worker of each TaskQueue. A
// smaller limit set by the program still applies.
class ExtraThreads {
 public:
  explicit ExtraThreads(int count) : count_(count) { add(count_); }
  ~ExtraThreads() { add(-count_); }
  ExtraThreads(const ExtraThreads&) = delete;
  ExtraThreads& operator=(const ExtraThreads&) = delete;

 private:
  struct Limit {
    RankedMutex<LockRank::loader_threads> mutex;
    std::size_t usual = 0;
    std::size_t extra = 0;
    std::unique_ptr<tbb::global_control> control;
  };

  static void add(int count) {
    static Limit& limit = *new Limit;  // never destroyed: loaders may be static objects too
    constexpr auto kParameter = tbb::global_control::max_allowed_parallelism;
    const std::lock_guard lock(limit.mutex);
    if (limit.extra == 0)
      limit.usual =
          std::max(tbb::global_control::active_value(kParameter), std::size_t(tbb::info::default_concurrency()));
    limit.extra += std::size_t(count);
    limit.control =
        limit.extra > 0 ? std::make_unique<tbb::global_control>(kParameter, limit.usual + limit.extra) : nullptr;
  }

  int count_;
};

int checked(int workers) {
  if (is_forked())
    throw BackendError("DataLoader", ENOTRECOVERABLE, "a forked process",
                       "the worker threads exist only in its parent. What to do: load with num_workers = 0 there");
  watch_forks();
  return workers;
}

}  // namespace

// Each entry in the arena's queue calls run_one() once. The tasks themselves are in this struct, because the arena
// guarantees no order and cannot drop tasks. An entry that runs after all tasks are done or cancelled does nothing.
struct TaskQueue::Tasks {
  RankedMutex<LockRank::task_queue> mutex;
  RankedCondition idle;
  std::deque<std::function<void()>> waiting;
  std::size_t unfinished = 0;  // waiting or running

  // Call it with the lock held: a thread in wait() may destroy the objects that the tasks used as soon as the lock is
  // released.
  void finish(std::size_t count) {
    unfinished -= count;
    if (unfinished == 0) idle.notify_all();
  }

  bool run_one() {
    std::function<void()> task;
    {
      const std::lock_guard lock(mutex);
      if (waiting.empty()) return false;
      task = std::move(waiting.front());
      waiting.pop_front();
    }
    const bool outer = std::exchange(runs_a_task, true);
    task();
    runs_a_task = outer;
    task = nullptr;
    const std::lock_guard lock(mutex);
    finish(1);
    return true;
  }
};

struct TaskQueue::Threads {
  // High priority: the arena gets its workers even if parallel loops of operations request more threads than there are.
  explicit Threads(int workers) : extra(workers), arena(workers, 0, tbb::task_arena::priority::high) {}

  ExtraThreads extra;
  tbb::task_arena arena;
};

TaskQueue::TaskQueue(int workers)
    : threads_(std::make_unique<Threads>(checked(workers))), tasks_(std::make_shared<Tasks>()) {}

TaskQueue::~TaskQueue() {
  cancel();
  if (!abandoned_) wait();
}

void TaskQueue::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(tasks_->mutex);
    tasks_->waiting.push_back(std::move(task));
    ++tasks_->unfinished;
  }
  threads_->arena.enqueue([tasks = tasks_] { tasks->run_one(); });
}

void TaskQueue::cancel() {
  std::deque<std::function<void()>> forgotten;  // destroyed after the lock is released
  const std::lock_guard lock(tasks_->mutex);
  forgotten.swap(tasks_->waiting);
  tasks_->finish(forgotten.size());
}

void TaskQueue::wait() {
  std::unique_lock lock(tasks_->mutex);
  tasks_->idle.wait(lock, [this] { return tasks_->unfinished == 0; });
}

bool TaskQueue::run_one() { return tasks_->run_one(); }

bool TaskQueue::on_worker() noexcept { return runs_a_task; }

int TaskQueue::worker() noexcept { return std::max(tbb::this_task_arena::current_thread_index(), 0); }

}  // namespace lockstep::data
