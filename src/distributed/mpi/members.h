// The processes of the job.
#pragma once

#include <string>
#include <vector>

#include "core/text.h"

namespace lockstep::mpi {

struct Members {
  int rank = 0;
  std::vector<std::string> hosts;  ///< By rank.

  int size() const noexcept { return int(hosts.size()); }
  std::string name(int process) const { return text("process ", process, " on ", hosts.at(std::size_t(process))); }
  std::string me() const { return name(rank); }
};

}  // namespace lockstep::mpi
