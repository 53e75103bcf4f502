#include "distributed/mpi/neighbors.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

namespace lockstep::mpi {

// Linux before 5.3 has no pidfd_open(). There no neighbor is watched, and a dead process is noticed only later, because
// its signs of life are missing.
Neighbors::Neighbors(const std::vector<Attributes>& by_rank, int rank) {
  const Attributes& own = by_rank.at(std::size_t(rank));
  for (int p = 0; p < int(by_rank.size()); ++p) {
    const Attributes& other = by_rank[std::size_t(p)];
    if (p == rank || other.at(kHost) != own.at(kHost) || other.at(kPidNamespace) != own.at(kPidNamespace)) continue;
    const int descriptor = int(::syscall(SYS_pidfd_open, std::atoi(other.at(kProcessId).c_str()), 0));
    if (descriptor < 0) continue;
    watched_.push_back({descriptor, POLLIN, 0});
    ranks_.push_back(p);
  }
}

Neighbors::~Neighbors() {
  for (const pollfd& each : watched_)
    if (each.fd >= 0) ::close(each.fd);
}

std::vector<int> Neighbors::ended() {
  std::vector<int> ranks;
  if (watched_.empty() || ::poll(watched_.data(), watched_.size(), 0) <= 0) return ranks;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    if (watched_[i].fd < 0 || watched_[i].revents == 0) continue;
    ranks.push_back(ranks_[i]);
    ::close(std::exchange(watched_[i].fd, -1));  // poll() ignores a descriptor of -1
  }
  return ranks;
}

}  // namespace lockstep::mpi
