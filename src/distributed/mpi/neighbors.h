// The other processes of a job on this host. The operating system reports when one of them ends.
#pragma once

#include <poll.h>

#include <vector>

#include "distributed/mpi/attributes.h"

namespace lockstep::mpi {

class Neighbors {
 public:
  Neighbors(const std::vector<Attributes>& by_rank, int rank);
  ~Neighbors();
  Neighbors(const Neighbors&) = delete;
  Neighbors& operator=(const Neighbors&) = delete;

  /// Returns the processes that have ended since the last call.
  std::vector<int> ended();

 private:
  std::vector<pollfd> watched_;
  std::vector<int> ranks_;  // ranks_[i] is the process of watched_[i]
};

}  // namespace lockstep::mpi
