// A stream of a simulated device: a queue and a worker thread. Any thread may call any function.
//
// Tasks are numbered from 1; a task's number is its ticket. An event is a stream and a ticket; it needs no task.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <variant>

#include "backends/sim/async_error.h"
#include "core/ranked_mutex.h"
#include "runtime/backend.h"
#include "runtime/trace/trace.h"

namespace lockstep::sim {

class SimStream;
class SimCollective;

struct KernelTask {
  KernelRef::Owned body;
  double flops = 0;
  std::size_t bytes = 0;  // only if a trace is recorded
};
struct CopyTask {
  Copy copy;
  std::unique_ptr<std::byte[]> staged;  // owns copy.from, if that was copied from pageable host memory
};
struct FusedTask {
  FusedOp op;
  void* workspace = nullptr;
};
struct PoisonTask {
  void* memory = nullptr;
  std::size_t bytes = 0;
};
struct WaitTask {
  SimStream* stream = nullptr;
  std::uint64_t ticket = 0;
};
struct CollectiveTask {
  std::shared_ptr<SimCollective> collective;
  int rank = 0;  // among this process's ranks
};
struct FailTask {
  std::shared_ptr<AsyncError> error;
};

struct Task {
  const char* op = "";  // a string literal
  std::variant<KernelTask, CopyTask, PoisonTask, Matmul, std::unique_ptr<FusedTask>, WaitTask, CollectiveTask, FailTask>
      work;
  /// If not null: set to the stream's error after this task (null if the task ran), before the task counts as ended. So
  /// the caller learns that the task failed even if another thread has reported and cleared the error.
  std::shared_ptr<AsyncError>* failure = nullptr;
  EnqueueMark mark = {};
  std::optional<std::size_t> replica = {};  // the replica that pushed it
};

class SimStream {
 public:
  struct Timing {
    std::uint64_t seed = 0;
    int max_delay_us = 0;
    std::chrono::microseconds awake{0};  ///< How long a wait polls before it sleeps.
  };
  /// `index`: the stream's number among all streams of the backend. Throws BackendError if the worker thread cannot be
  /// started. (It is started here because the first task often must not throw.)
  SimStream(int device, int id, int index, Timing timing);
  ~SimStream();  ///< Runs the queued tasks, then joins.
  SimStream(const SimStream&) = delete;
  SimStream& operator=(const SimStream&) = delete;

  const int device;
  const int id;
  const int index;
  const std::string device_name;
  const std::string name;  ///< For messages.

  void push(Task task);
  /// Waits while the queue is as full as that of a real device can be: kMaxTasks tasks, or kMaxStagedBytes bytes copied
  /// from the host. Call this before the task is made, without holding a lock.
  void wait_for_room(std::size_t staged_bytes = 0);
  /// Notes that the task pushed last holds a copy of `bytes` bytes of the host's memory.
  void count_staged_bytes(std::size_t bytes);
  static constexpr std::uint64_t kMaxTasks = 1 << 14;
  static constexpr std::size_t kMaxStagedBytes = std::size_t(64) << 20;
  std::uint64_t last_ticket() const;  ///< The ticket of the task pushed last.

  /// Skipped tasks count as ended, so every wait ends.
  bool has_ended(std::uint64_t ticket) const;
  void wait_until_ended(std::uint64_t ticket);

  /// Returns the error of the tasks up to `ticket`, unless it was reported to the host.
  std::shared_ptr<AsyncError> error_until(std::uint64_t ticket) const;

 private:
  struct Waiters {
    RankedCondition ended;
    int count = 0;
  };
  struct Staged {
    std::uint64_t ticket;
    std::size_t bytes;
  };

  void work();
  Waiters& waiters_of(std::uint64_t ticket) { return waiters_[ticket % waiters_.size()]; }
  std::shared_ptr<AsyncError> run(Task& task, std::shared_ptr<AsyncError> earlier);
  std::shared_ptr<AsyncError> make_error(std::exception_ptr failure, const Task& task) noexcept;
  void hold_back();
  std::shared_ptr<AsyncError> live_error() const;

  mutable RankedMutex<LockRank::sim_stream> mutex_;
  RankedCondition task_pushed_;
  std::array<Waiters, 8> waiters_;  // by the ticket modulo 8: many streams may wait for this one, each for another task
  std::deque<Task> queue_;
  std::atomic<std::uint64_t> pushed_ = 0;  // written with the lock held
  std::atomic<std::uint64_t> ended_ = 0;   // written with the lock held
  std::shared_ptr<AsyncError> error_;
  std::uint64_t error_ticket_ = 0;
  std::shared_ptr<AsyncError> spare_;  // used if there is no memory for an error; renewed by push()
  bool stopping_ = false;

  RankedMutex<LockRank::sim_staged_bytes> staged_mutex_;
  std::deque<Staged> staged_;  // oldest first
  std::size_t staged_bytes_ = 0;

  // Used by the worker only.
  const Timing timing_;
  std::minstd_rand random_;
  std::thread worker_;  // constructed last: it uses the others
};

}  // namespace lockstep::sim
