// The other processes of a job on this host, of which the operating system tells when they have ended.
#pragma once

#include <poll.h>

#include <vector>

#include "runtime/mpi/facts.h"

namespace lockstep::mpi {

class Neighbors {
 public:
  Neighbors(const std::vector<Facts>& by_rank, int rank);
  ~Neighbors();
  Neighbors(const Neighbors&) = delete;
  Neighbors& operator=(const Neighbors&) = delete;

  /// Those that have ended since this was last asked.
  std::vector<int> ended();

 private:
  std::vector<pollfd> watched_;
  std::vector<int> ranks_;  // of each
};

}  // namespace lockstep::mpi
