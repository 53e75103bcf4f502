// Short notes between processes beside MPI, which ends the process where it meets a peer that has died on another host
// (Open MPI 4.1 over TCP). They may be lost, and may not get through at all: then MPI must do. The thread of MPI alone.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/mpi/facts.h"

namespace lockstep::mpi {

class Datagrams {
 public:
  Datagrams();
  ~Datagrams();
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  /// The fact by which others find this process: kDatagrams.
  std::string address() const;
  void connect(const std::vector<Facts>& by_rank, int rank);

  /// At most kMostBytes. To each address that the host of `to` may have, until the one is known.
  static constexpr std::size_t kMostBytes = 1024;
  void send(int to, const void* data, std::size_t bytes) noexcept;
  /// The sender of the next that has come, of so many bytes.
  std::optional<int> receive(void* data, std::size_t bytes) noexcept;

 private:
  struct Header {  // of this job, and for this process
    std::uint64_t job = 0;
    std::int32_t from = 0, to = 0;
  };
  struct Datagram {
    Header header;
    char data[kMostBytes];
  };

  int socket_ = -1;
  std::uint64_t secret_ = 0;
  Header own_;
  std::vector<std::vector<sockaddr_in>> addresses_;  // by rank
};

}  // namespace lockstep::mpi
