// State shared by the MPI thread and the callers of a transport.
#pragma once

#include <chrono>
#include <utility>

#include "distributed/mpi/handover.h"
#include "distributed/mpi/members.h"

namespace lockstep::mpi {

struct Job {
  Job(Members all, std::chrono::milliseconds time_limit) : members(std::move(all)), limit(time_limit) {}

  const Members members;
  const std::chrono::milliseconds limit;
  Handover handover;
};

}  // namespace lockstep::mpi
