// Tasks on threads of their own: an oneTBB arena, so that they and the loops of operations share one pool.
#pragma once

#include <functional>
#include <memory>

namespace lockstep::data {

/// Begins tasks in the order given, at most `workers` of them at once. Safe from any thread.
class TaskQueue {
 public:
  explicit TaskQueue(int workers);
  ~TaskQueue();  ///< Cancels, then waits for the tasks that have begun.
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  /// The task must not throw.
  void submit(std::function<void()> task);
  /// Forgets the tasks that have not begun.
  void cancel();
  /// Until no task is left, and none of what the tasks held.
  void wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
