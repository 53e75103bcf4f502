// Progress: the work of the MPI thread, from the start of a job to its end.
#pragma once

#include <mpi.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "distributed/mpi/attributes.h"
#include "distributed/mpi/control_channel.h"
#include "distributed/mpi/job.h"
#include "distributed/mpi/neighbors.h"
#include "distributed/mpi/transfers.h"

namespace lockstep::mpi {

/// Duplicates of MPI_COMM_WORLD: one for messages, one for control notes.
struct Communicators {
  MPI_Comm messages;
  MPI_Comm notes;
};

class Progress {
 public:
  Progress(Communicators communicators, Datagrams& datagrams, const std::vector<Attributes>& by_rank, Job& job);

  /// Moves messages until all processes have left. Returns false if the job failed: then MPI must not be called any
  /// more.
  bool run();

 private:
  void step();
  void move_messages(const Requests& requests, Clock::time_point now);
  void check_peers(Clock::time_point now);
  void check_neighbors(Clock::time_point now);
  void check_termination(Clock::time_point now);
  void rest(Clock::time_point now);
  void fail(const Failure& failure);
  void fail(const Overdue& overdue);
  std::optional<Failure> find_lost(const std::string& why);
  void fail_without_mpi(const std::string& why);
  void wait_to_leave();

  const Members& members_;
  Handover& handover_;
  Transfers transfers_;
  ControlChannel control_;
  Neighbors neighbors_;
  const std::chrono::milliseconds limit_;
  Clock::time_point last_move_, last_peer_check_, last_neighbor_check_;
  std::optional<Clock::time_point> sigterm_at_;  // when SIGTERM arrived
  std::optional<Failure> failure_;
  bool leaves_ = false;
};

}  // namespace lockstep::mpi
