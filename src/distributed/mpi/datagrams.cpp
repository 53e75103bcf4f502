#include "distributed/mpi/datagrams.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <sstream>

#include "core/text.h"

namespace lockstep::mpi {

// Without a socket, send() and receive() do nothing.
Datagrams::Datagrams() : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  std::random_device random;
  secret_ = std::uint64_t(random()) << 32 | random();
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  if (socket_ >= 0) ::bind(socket_, reinterpret_cast<const sockaddr*>(&any), sizeof any);
}

Datagrams::~Datagrams() {
  if (socket_ >= 0) ::close(socket_);
}

std::string Datagrams::address() const {
  sockaddr_in own = {};
  socklen_t size = sizeof own;
  ::getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &size);
  std::string all = text(secret_, ' ', ntohs(own.sin_port));
  ifaddrs* interfaces = nullptr;
  if (::getifaddrs(&interfaces) != 0) return all;
  for (const ifaddrs* each = interfaces; each; each = each->ifa_next) {
    if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET) continue;
    char digits[INET_ADDRSTRLEN] = {};
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    if (::inet_ntop(AF_INET, &address->sin_addr, digits, sizeof digits)) all.append(" ").append(digits);
  }
  ::freeifaddrs(interfaces);
  return all;
}

void Datagrams::connect(const std::vector<Attributes>& by_rank, int rank) {
  own_.from = rank;
  for (const Attributes& attributes : by_rank) {
    std::istringstream words(attributes.at(kDatagramAddress));
    std::uint64_t secret = 0;
    int port = 0;
    words >> secret >> port;
    if (addresses_.empty()) own_.job = secret;
    std::vector<sockaddr_in>& addresses = addresses_.emplace_back();
    for (std::string digits; words >> digits;) {
      sockaddr_in address = {};
      address.sin_family = AF_INET;
      address.sin_port = htons(std::uint16_t(port));
      if (::inet_pton(AF_INET, digits.c_str(), &address.sin_addr) == 1) addresses.push_back(address);
    }
  }
}

void Datagrams::send(int to, const void* data, std::size_t bytes) noexcept {
  Datagram datagram;
  datagram.header = own_;
  datagram.header.to = to;
  bytes = std::min(bytes, kMaxBytes);
  std::memcpy(datagram.data, data, bytes);
  for (const sockaddr_in& address : addresses_[std::size_t(to)])
    ::sendto(socket_, &datagram, sizeof(Header) + bytes, 0, reinterpret_cast<const sockaddr*>(&address),
             sizeof address);
}

std::optional<int> Datagrams::receive(void* data, std::size_t bytes) noexcept {
  for (;;) {
    Datagram datagram;
    sockaddr_in sender = {};
    socklen_t size = sizeof sender;
    const ssize_t came =
        ::recvfrom(socket_, &datagram, sizeof datagram, 0, reinterpret_cast<sockaddr*>(&sender), &size);
    if (came < 0) return std::nullopt;
    const Header& header = datagram.header;
    if (std::size_t(came) != sizeof header + bytes || header.job != own_.job || header.to != own_.from ||
        header.from < 0 || std::size_t(header.from) >= addresses_.size())
      continue;  // not from this job
    addresses_[std::size_t(header.from)].assign(1, sender);
    std::memcpy(data, datagram.data, bytes);
    return header.from;
  }
}

}  // namespace lockstep::mpi
