// Short UDP messages between processes. They are needed because Open MPI 4.1 over TCP ends a process that sends to a
// dead peer on another host. Datagrams may be lost or blocked; then MPI carries the messages. Only the MPI thread uses
// this class.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "distributed/mpi/attributes.h"

namespace lockstep::mpi {

class Datagrams {
 public:
  Datagrams();
  ~Datagrams();
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  /// The job attribute kDatagramAddress: where other processes reach this one.
  std::string address() const;
  void connect(const std::vector<Attributes>& by_rank, int rank);

  /// Sends at most kMaxBytes to process `to`. Until the process's address is known, sends to all addresses of its host.
  static constexpr std::size_t kMaxBytes = 1024;
  void send(int to, const void* data, std::size_t bytes) noexcept;
  /// Returns the sender of the next received datagram of exactly `bytes` bytes; nullopt if there is none.
  std::optional<int> receive(void* data, std::size_t bytes) noexcept;

 private:
  struct Header {  // identifies the job and the receiver
    std::uint64_t job = 0;
    std::int32_t from = 0, to = 0;
  };
  struct Datagram {
    Header header;
    char data[kMaxBytes];
  };

  int socket_ = -1;
  std::uint64_t secret_ = 0;
  Header own_;
  std::vector<std::vector<sockaddr_in>> addresses_;  // by rank
};

}  // namespace lockstep::mpi
