#include <lockstep/runtime/world.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/transport.h"

namespace lockstep {
namespace {

constexpr int kChannel = 0;
const std::string kThisHost = "this host";

// What fits goes along with the size.
struct Frame {
  std::uint64_t size = 0;
  char first[56] = {};
};

void send(Transport& transport, int to, const std::string& bytes, const char* what) {
  Frame frame = {.size = bytes.size()};
  const std::size_t along = std::min(bytes.size(), sizeof frame.first), rest = bytes.size() - along;
  std::memcpy(frame.first, bytes.data(), along);
  const PendingMessage head = transport.send(to, kChannel, &frame, sizeof frame);
  const PendingMessage tail = rest ? transport.send(to, kChannel, bytes.data() + along, rest) : nullptr;
  head->wait(what);
  if (tail) tail->wait(what);
}

std::string receive(Transport& transport, int from, const char* what) {
  Frame frame;
  transport.receive(from, kChannel, &frame, sizeof frame)->wait(what);
  std::string bytes(frame.size, '\0');
  const std::size_t along = std::min(bytes.size(), sizeof frame.first), rest = bytes.size() - along;
  std::memcpy(bytes.data(), frame.first, along);
  if (rest) transport.receive(from, kChannel, bytes.data() + along, rest)->wait(what);
  return bytes;
}

std::string packed(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) {
    const std::uint64_t size = part.size();
    all.append(reinterpret_cast<const char*>(&size), sizeof size);
    all += part;
  }
  return all;
}

std::vector<std::string> unpacked(const std::string& all) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < all.size();) {
    std::uint64_t size = 0;
    std::memcpy(&size, all.data() + at, sizeof size);
    parts.push_back(all.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
  return parts;
}

}  // namespace

World::World(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}

ProcessRank World::rank() const noexcept { return ProcessRank(transport_ ? transport_->rank() : 0); }
int World::size() const noexcept { return transport_ ? transport_->size() : 1; }
const std::string& World::host(ProcessRank process) const {
  return transport_ ? transport_->host(process.value()) : kThisHost;
}
std::chrono::milliseconds World::time_limit() const noexcept {
  return transport_ ? transport_->time_limit() : std::chrono::milliseconds(0);
}

// Process 0 hears all, and tells all.
std::vector<std::string> World::all_gather(const std::string& mine, const char* what) const {
  if (size() == 1) return {mine};
  const std::scoped_lock lock(transport_->exchange);
  if (!is_first()) {
    send(*transport_, 0, mine, what);
    return unpacked(receive(*transport_, 0, what));
  }
  std::vector<std::string> parts = {mine};
  for (int p = 1; p < size(); ++p) parts.push_back(receive(*transport_, p, what));
  const std::string all = packed(parts);
  for (int p = 1; p < size(); ++p) send(*transport_, p, all, what);
  return parts;
}

std::vector<std::int64_t> World::all_gather(std::int64_t mine, const char* what) const {
  std::vector<std::int64_t> numbers;
  for (const std::string& part : all_gather(std::string(reinterpret_cast<const char*>(&mine), sizeof mine), what)) {
    std::int64_t number = 0;
    std::memcpy(&number, part.data(), std::min(part.size(), sizeof number));
    numbers.push_back(number);
  }
  return numbers;
}

std::string World::from_first(const std::string& mine, const char* what) const {
  if (size() == 1) return mine;
  const std::scoped_lock lock(transport_->exchange);
  if (!is_first()) return receive(*transport_, 0, what);
  for (int p = 1; p < size(); ++p) send(*transport_, p, mine, what);
  return mine;
}

void World::barrier(const char* what) const { all_gather(std::string(), what); }

}  // namespace lockstep
