#include "data/task_queue.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace lockstep::data {
namespace {

// oneTBB's limit on threads holds for the process, and the smallest of all that are asked for is in force. Tasks of
// loaders spend much of their time waiting, for files or for each other: the workers of all queues together come on
// top of one thread for each core. A smaller limit that the program has set stays in force.
class ExtraThreads {
 public:
  explicit ExtraThreads(int count) : count_(count) { add(count_); }
  ~ExtraThreads() { add(-count_); }
  ExtraThreads(const ExtraThreads&) = delete;
  ExtraThreads& operator=(const ExtraThreads&) = delete;

 private:
  struct Limit {
    std::mutex mutex;
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

}  // namespace

// Each entry in the arena's own queue stands for one run_next(). The tasks are kept here, since the arena neither
// promises their order nor forgets them.
struct TaskQueue::State {
  // High priority: the arena gets its workers even where loops of operations ask for more threads than there are.
  explicit State(int workers) : threads(workers), arena(workers, 0, tbb::task_arena::priority::high) {}

  ExtraThreads threads;
  tbb::task_arena arena;

  std::mutex mutex;
  std::condition_variable idle;
  std::deque<std::function<void()>> tasks;
  std::size_t enqueued = 0;  // entries in the arena, waiting or running

  void run_next() {
    std::function<void()> task;
    {
      const std::lock_guard lock(mutex);
      if (!tasks.empty()) {
        task = std::move(tasks.front());
        tasks.pop_front();
      }
    }
    if (task) task();
    task = nullptr;
    // Notified under the lock: whoever waits may destroy this as soon as the lock is free.
    const std::lock_guard lock(mutex);
    if (--enqueued == 0) idle.notify_all();
  }
};

TaskQueue::TaskQueue(int workers) : state_(std::make_unique<State>(workers)) {}

TaskQueue::~TaskQueue() {
  cancel();
  wait();
}

void TaskQueue::submit(std::function<void()> task) {
  State& state = *state_;
  {
    const std::lock_guard lock(state.mutex);
    state.tasks.push_back(std::move(task));
    ++state.enqueued;
  }
  state.arena.enqueue([&state] { state.run_next(); });
}

void TaskQueue::cancel() {
  std::deque<std::function<void()>> forgotten;  // destroyed after the lock is free
  const std::lock_guard lock(state_->mutex);
  forgotten.swap(state_->tasks);
}

void TaskQueue::wait() {
  std::unique_lock lock(state_->mutex);
  state_->idle.wait(lock, [this] { return state_->enqueued == 0; });
}

}  // namespace lockstep::data
