// Between the threads that call a transport and the one thread that calls MPI: messages one way, their ends and the end
// of everything the other way. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/ranked_mutex.h"

namespace lockstep::mpi {

using Clock = std::chrono::steady_clock;

/// A message from the call of send() or receive() on.
struct Transfer {
  enum class Way { send, receive };

  const Way way;
  const int peer;
  const int channel;
  void* const data;
  const std::size_t bytes;
  std::atomic<bool> is_done = false;
  std::size_t pieces_left = 0;  ///< For the thread of MPI.

  Transfer(Way a, int b, int c, void* d, std::size_t e) : way(a), peer(b), channel(c), data(d), bytes(e) {}
};

/// What ended the job for this process: who is to blame, and what it did.
struct Failure {
  int process;
  std::string reason;
};

/// A peer that did not come within the time limit to what was waited for.
struct Overdue {
  int process;
  std::string what;
};

/// What callers have asked for since it was last taken.
struct Orders {
  std::vector<std::shared_ptr<Transfer>> transfers;
  std::optional<Failure> fail;
  std::optional<Overdue> overdue;
  bool leave = false;
};

class Handover {
 public:
  // By callers.
  /// False if the job has ended.
  bool order(const std::shared_ptr<Transfer>& transfer);
  /// Whether it was done before `end`, or before a failure.
  bool wait_done(const Transfer& transfer, Clock::time_point end);
  /// Returns when MPI will touch no message's memory any more. The first failure counts.
  void fail(Failure failure) noexcept;
  /// The same. Who is to blame is found out.
  void fail(Overdue overdue) noexcept;
  /// The failure, from when MPI touches no message's memory any more.
  std::optional<Failure> failure() const;
  void leave() noexcept;
  /// Whether the thread of MPI ended before `end`.
  bool wait_ended(Clock::time_point end) noexcept;
  /// When the thread of MPI last showed that MPI does not hang.
  Clock::time_point last_seen() const noexcept { return Clock::time_point(Clock::duration(last_seen_.load())); }

  // By the thread of MPI.
  /// Sleeps until there is something to do, but not longer.
  void rest(Clock::duration longest);
  /// Whether a caller sleeps until something is done. One that begins to ends rest().
  bool is_awaited() const noexcept { return waiting_ > 0; }
  Orders take();
  /// The peer for which callers have waited since before then, for the longest time.
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
  Orders orders_;
  std::atomic<bool> has_orders_ = false;
  std::list<Wait> waits_;
  std::optional<Failure> failure_;
  bool ended_ = false;
  std::atomic<Clock::rep> last_seen_ = Clock::now().time_since_epoch().count();
  std::atomic<int> waiting_ = 0;  // callers that sleep, or are about to
};

}  // namespace lockstep::mpi
