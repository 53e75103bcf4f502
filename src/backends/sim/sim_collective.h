// A collective among simulated streams: the workers of all ranks' streams meet here and share the work.
//
// The tasks of one collective enter all its streams under one lock. Therefore any two collectives have the same order
// on every stream that they share. Since a stream only ever waits for work that was enqueued earlier, ranks that wait
// for each other in run() cannot deadlock.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "backends/sim/async_error.h"
#include "core/ranked_mutex.h"
#include "cpu/process_collective.h"
#include "cpu/reduce_ranks.h"
#include "runtime/backend.h"
#include "runtime/trace/trace.h"

namespace lockstep::sim {

/// Any thread may call any function; each rank calls run() once.
class SimCollective {
 public:
  /// `awake`: how long a rank that waits for others polls before it sleeps. `processes`: the work together with other
  /// processes; null for a single process.
  SimCollective(const CollectiveCall& call, std::chrono::microseconds awake,
                std::unique_ptr<host::ProcessCollective> processes = nullptr);

  /// Called before anything is enqueued. The operation will then fail on all ranks with this error of one rank.
  void fail(std::shared_ptr<AsyncError> error) {
    const std::scoped_lock lock(mutex_);  // another thread may abort this operation at the same time
    error_ = std::move(error);
  }

  /// The trace's description of the rank's part.
  const TraceWork& traced(int rank) const { return traced_[std::size_t(rank)]; }

  /// Called by the worker of the rank's stream. Waits for the other ranks, does a share of the work, and returns when
  /// all work is done. `earlier` is the stream's earlier error; it fails the operation on all ranks. Returns the
  /// stream's error after the operation. Throws std::bad_alloc if there is no memory for an error.
  std::shared_ptr<AsyncError> run(int rank, std::shared_ptr<AsyncError> earlier);

  /// Fails the operation on all ranks: at once if a rank has not arrived yet, else after the current pieces.
  void abort() noexcept;

  /// Makes a CollectiveError of this operation. Reporting it also reports `causes`.
  std::shared_ptr<AsyncError> error(int rank, const std::string& reason, std::exception_ptr cause = nullptr,
                                    std::vector<std::shared_ptr<AsyncError>> causes = {}) const;

 private:
  using Mutex = RankedMutex<LockRank::sim_collective>;
  enum class Phase : int { gathering, working, ended };  // an int, on which std::atomic::wait uses a futex

  void wait_while(Phase phase) const;
  void begin_work();
  bool take_part();
  void work();
  void work_with_processes() noexcept;
  void end_work() noexcept;
  std::shared_ptr<AsyncError> error_of_ranks() const;
  std::shared_ptr<AsyncError> told_error_of_ranks() const noexcept;

  const char* const name_;
  const std::size_t bytes_;
  const DType dtype_;
  const ReduceOp op_;
  const std::chrono::microseconds awake_;
  std::vector<std::string> devices_;  // names, by rank
  std::vector<TraceWork> traced_;     // by rank

  const std::unique_ptr<host::ProcessCollective> processes_;  // if set, the work is one piece

  // The work, in pieces of kPieceBytes. Any worker may take any piece; the result is the same.
  std::vector<RankReduction> reductions_;
  std::vector<std::size_t> first_piece_;  // by reduction
  std::size_t pieces_ = 0;
  std::atomic<std::size_t> next_piece_ = 0;

  Mutex mutex_;
  std::atomic<Phase> phase_ = Phase::gathering;  // written with the lock held
  int arrived_ = 0;
  int working_ = 0;
  std::vector<bool> here_;                            // by rank
  std::vector<std::shared_ptr<AsyncError>> earlier_;  // by rank
  std::shared_ptr<AsyncError> error_;
  bool has_no_memory_ = false;  // no memory for an AsyncError
};

/// The collectives that were enqueued and may not have ended.
class SimCommunicator {
 public:
  explicit SimCommunicator(const Peers& peers) : peers_(peers) {}

  std::shared_ptr<SimCollective> make(const CollectiveCall& call, std::chrono::microseconds awake);
  /// Throws CollectiveError after abort().
  void add(const std::shared_ptr<SimCollective>& collective, const CollectiveCall& call);
  void abort() noexcept;
  void count_failure() noexcept { ++failures_; }
  std::uint64_t failures() const noexcept { return failures_; }

 private:
  std::atomic<std::uint64_t> failures_ = 0;
  RankedMutex<LockRank::sim_communicator> mutex_;
  const Peers peers_;
  std::atomic<std::size_t> sequence_ = 0;
  bool aborted_ = false;
  std::vector<std::weak_ptr<SimCollective>> pending_;
  std::size_t tidy_at_ = 64;
};

}  // namespace lockstep::sim
