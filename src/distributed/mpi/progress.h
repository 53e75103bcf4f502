// Progress: the work of the MPI thread, from the start of a job to its end.
#pragma once

#include <mpi.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "distributed/mpi/facts.h"
#include "distributed/mpi/job.h"
#include "distributed/mpi/neighbors.h"
#include "distributed/mpi/peers.h"
#include "distributed/mpi/transfers.h"

namespace lockstep::mpi {

/// Duplicates of MPI_COMM_WORLD: one for messages, one for control notes.
struct Communicators {
  MPI_Comm messages;
  MPI_Comm notes;
};

class Progress {
 public:
  Progress(Communicators communicators, Datagrams& datagrams, const std::vector<Facts>& by_rank, Job& job);

  /// Moves messages until all processes have left. Returns false if the job failed: then MPI must not be called any
  /// more. Does not return if MPI gave up: the job has then failed, and this thread sleeps for good.
  bool run();

 private:
  void step();
  void move_messages(const Orders& orders, Clock::time_point now);
  void look_at_peers(Clock::time_point now);
  void look_at_neighbors(Clock::time_point now);
  void look_at_termination(Clock::time_point now);
  void rest(Clock::time_point now);
  void fail(const Failure& failure);
  void fail(const Overdue& overdue);
  std::optional<Failure> find_lost(const std::string& why);
  void fail_without_mpi(const std::string& why);
  void look_after_lost_connection() noexcept;
  [[noreturn]] void stay_in_mpi() noexcept;
  void wait_to_leave();

  const Members& members_;
  Handover& handover_;
  Transfers transfers_;
  Peers peers_;
  Neighbors neighbors_;
  const std::chrono::milliseconds limit_;
  Clock::time_point last_move_, last_look_, last_look_at_neighbors_;
  std::optional<Clock::time_point> asked_;  // when SIGTERM arrived
  std::optional<Failure> failure_;
  bool leaves_ = false;
};

}  // namespace lockstep::mpi
