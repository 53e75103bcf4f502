// The processes of the job, and the state that the MPI thread shares with the threads that call the transport.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "core/text.h"
#include "distributed/mpi/handover.h"

namespace lockstep::mpi {

struct Members {
  int rank = 0;
  std::vector<std::string> hosts;  ///< The host names, by rank.

  int size() const noexcept { return int(hosts.size()); }
  std::string name(int process) const { return text("process ", process, " on ", hosts.at(std::size_t(process))); }
  /// Returns "process 1 on host-b or process 2 on host-a".
  std::string any_of(const std::vector<int>& processes) const {
    std::string names;
    for (const int process : processes) names += text(names.empty() ? "" : " or ", name(process));
    return names;
  }
  std::string me() const { return name(rank); }
};

struct Job {
  Job(Members all, std::chrono::milliseconds time_limit) : members(std::move(all)), limit(time_limit) {}

  const Members members;
  const std::chrono::milliseconds limit;
  Handover handover;
};

}  // namespace lockstep::mpi
