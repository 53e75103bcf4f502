// Tasks on worker threads, in an oneTBB arena, which shares one thread pool with the parallel loops of operations.
#pragma once

#include <functional>
#include <memory>

namespace lockstep::data {

/// Starts tasks in the order of submission, at most `workers` of them at once. Safe from any thread.
class TaskQueue {
 public:
  explicit TaskQueue(int workers);
  ~TaskQueue();  ///< Cancels, then waits for the running tasks unless abandon() was called.
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  /// The task must not throw.
  void submit(std::function<void()> task);
  /// Drops the tasks that have not begun.
  void cancel();
  /// Waits until no task is left, and everything that tasks captured is destroyed.
  void wait();
  /// Makes the destructor not wait for running tasks, one of which may never end.
  void abandon() noexcept { abandoned_ = true; }
  /// Runs, on the calling thread, the first task that no thread has begun; returns false if there is none.
  bool run_one();

  /// True if the calling thread runs a task of some queue. Such a thread must not wait for tasks that have not begun:
  /// all threads may be waiting like this, and none would run them.
  static bool on_worker() noexcept;
  /// The number of the worker that runs the calling task, from 0.
  static int worker() noexcept;

 private:
  struct Threads;
  struct Tasks;
  std::unique_ptr<Threads> threads_;
  std::shared_ptr<Tasks> tasks_;
  bool abandoned_ = false;
};

}  // namespace lockstep::data
