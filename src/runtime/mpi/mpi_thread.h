// The thread that calls MPI, from MPI_Init_thread to MPI_Finalize.
#pragma once

#include <chrono>
#include <future>
#include <memory>

#include "runtime/mpi/job.h"

namespace lockstep::mpi {

struct Start {
  std::promise<std::shared_ptr<Job>> joined;  ///< Null for a process alone; or why it may not join.
  std::promise<void> program_ends;            ///< Waited for by one that was refused, before it ends MPI.
  std::promise<void> ended;                   ///< If it was refused, or is alone: MPI has ended.
};

void run_mpi(const std::shared_ptr<Start>& start, std::chrono::milliseconds limit);

}  // namespace lockstep::mpi
