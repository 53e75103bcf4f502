// The thread that calls MPI, from MPI_Init_thread to MPI_Finalize.
#pragma once

#include <chrono>
#include <future>
#include <memory>

#include "distributed/mpi/job.h"

namespace lockstep::mpi {

struct Start {
  std::promise<std::shared_ptr<Job>> joined;  ///< Null for a single process; an exception if the process may not join.
  std::promise<void> program_ends;            ///< A refused process waits for this before it finalizes MPI.
  std::promise<void> ended;                   ///< Set when MPI has ended, in a refused or a single process.
};

void run_mpi(const std::shared_ptr<Start>& start, std::chrono::milliseconds limit);

}  // namespace lockstep::mpi
