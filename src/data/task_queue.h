// Tasks on threads of their own: an oneTBB arena, so that they and the loops of operations share one pool.
#pragma once

#include <functional>
#include <memory>

namespace lockstep::data {

/// Begins tasks in the order given, at most `workers` of them at once. Safe from any thread.
class TaskQueue {
 public:
  explicit TaskQueue(int workers);
  ~TaskQueue();  ///< Cancels, then waits for the tasks that have begun, unless they are abandoned.
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  /// The task must not throw.
  void submit(std::function<void()> task);
  /// Forgets the tasks that have not begun.
  void cancel();
  /// Until no task is left, and none of what the tasks held.
  void wait();
  /// Nobody is to wait for the tasks that have begun: one may never end.
  void abandon() noexcept { abandoned_ = true; }
  /// Runs the first task that has not begun on the calling thread; false if there is none.
  bool run_one();

  /// Whether the calling thread runs a task of some queue. It must not wait for tasks that have not begun: there may be
  /// no thread for them, since all may wait like this.
  static bool on_worker() noexcept;
  /// Of a task: the number of the worker that runs it, from 0 on.
  static int worker() noexcept;

 private:
  struct Threads;
  struct Tasks;
  std::unique_ptr<Threads> threads_;
  std::shared_ptr<Tasks> tasks_;
  bool abandoned_ = false;
};

}  // namespace lockstep::data
