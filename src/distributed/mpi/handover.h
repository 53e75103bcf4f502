// Handover between the threads that call a transport and the one thread that calls MPI: requests go one way, results
// and the end of the job the other way. Safe from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ranked_mutex.h"

namespace lockstep::mpi {

using Clock = std::chrono::steady_clock;

/// A message that a caller sends or receives.
struct Transfer {
  enum class Way { send, receive };

  const Way way;
  const int peer;
  const int channel;
  void* const data;
  const std::size_t bytes;
  std::atomic<bool> is_done = false;
  std::size_t pieces_left = 0;  ///< Used by the MPI thread only.

  Transfer(Way a, int b, int c, void* d, std::size_t e) : way(a), peer(b), channel(c), data(d), bytes(e) {}
};

/// The reason why the job ended for this process: the process that caused the failure, and what it did.
struct Failure {
  int process;
  std::string reason;
};

/// A peer that did not reach the operation `what` within the time limit.
struct Overdue {
  int process;
  std::string what;
};

/// The callers' requests since the last take_requests().
struct Requests {
  std::vector<std::shared_ptr<Transfer>> transfers;
  std::optional<Failure> fail;
  std::optional<Overdue> overdue;
  bool leave = false;
};

class Handover {
 public:
  // Called by the threads that send and receive.
  /// Passes a message to the MPI thread. Returns false if the job has ended.
  bool submit(const std::shared_ptr<Transfer>& transfer);
  /// Returns true if the transfer was done before `end` and before any failure.
  bool wait_done(const Transfer& transfer, Clock::time_point end);
  /// Waits until one of the transfers, of which some may be null, is done: returns its number, or nullopt after a
  /// failure.
  std::optional<std::size_t> wait_any(std::span<const Transfer* const> transfers);
  /// Fails the job. Returns when MPI will not access any message's memory any more. Only the first failure counts.
  void fail(Failure failure) noexcept;
  /// Like fail(Failure), but the MPI thread finds out which process caused the failure.
  void fail(Overdue overdue) noexcept;
  /// Returns the failure, once MPI no longer accesses any message's memory; else nullopt.
  std::optional<Failure> failure() const;
  void leave() noexcept;
  /// Returns true if the MPI thread ended before `end`.
  bool wait_ended(Clock::time_point end) noexcept;
  /// The last time at which the MPI thread reported, by seen(), that it does not hang in MPI.
  Clock::time_point last_seen() const noexcept { return Clock::time_point(Clock::duration(last_seen_.load())); }

  // Called by the MPI thread.
  /// Sleeps until there are requests, at most for `longest`.
  void rest(Clock::duration longest);
  /// Returns true if a caller sleeps because it waits for a transfer. When a caller begins to wait, rest() returns.
  bool is_awaited() const noexcept { return waiting_ > 0; }
  Requests take_requests();
  /// Returns the peer that a caller has waited for the longest, if that wait began before `since`.
  std::optional<int> waits_for(Clock::time_point since) const;
  void seen(Clock::time_point now) noexcept { last_seen_ = now.time_since_epoch().count(); }
  void done(Transfer& transfer) noexcept;
  void failed(Failure failure) noexcept;
  void ended() noexcept;

 private:
  using Mutex = RankedMutex<LockRank::transport>;

  struct Wait {
    int peer;
    Clock::time_point since;
  };

  void wait_for_failure(std::unique_lock<Mutex>& lock, const Failure& otherwise) noexcept;
  void wake_callers() noexcept;

  mutable Mutex mutex_;
  RankedCondition to_do_, changed_;
  Requests requests_;
  std::atomic<bool> has_requests_ = false;
  std::list<Wait> waits_;
  std::optional<Failure> failure_;
  bool ended_ = false;
  std::atomic<Clock::rep> last_seen_ = Clock::now().time_since_epoch().count();
  std::atomic<int> waiting_ = 0;  // callers that sleep, or are about to
};

}  // namespace lockstep::mpi
