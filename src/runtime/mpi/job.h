// State shared by the MPI thread and the callers of a transport.
#pragma once

#include <chrono>
#include <utility>

#include "runtime/mpi/handover.h"
#include "runtime/mpi/members.h"

namespace lockstep::mpi {

struct Job {
  Job(Members all, std::chrono::milliseconds time_limit) : members(std::move(all)), limit(time_limit) {}

  const Members members;
  const std::chrono::milliseconds limit;
  Handover handover;
};

}  // namespace lockstep::mpi
