// A group of devices for tests of collectives: a communicator, and a stream and memory on each device.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/simulation.h>

#include "runtime/registry.h"
#include "support/test_devices.h"

namespace lockstep::testing {

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
/// a == b; faster than std::ranges::equal in unoptimized builds.
inline bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

inline std::vector<Device> gpus(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back(Device::cuda(i));
  return devices;
}

template <class Devices>
class RanksOn {
 public:
  explicit RanksOn(int count, SimulationOptions options = {})
      : devices(arguments(options, count)), communicator(gpus(count)) {
    for (int rank = 0; rank < count; ++rank) streams.push_back(Stream::from_pool(Device::cuda(rank)));
  }
  ~RanksOn() { free_blocks(); }

  Devices devices;
  Communicator communicator;
  std::vector<Stream> streams;

  int size() const { return communicator.size(); }
  DeviceState& state(int rank) const { return device_state(Device::cuda(rank)); }
  StreamHandle handle(int rank) const { return StreamAccess::handle(streams[std::size_t(rank)]); }

  /// Allocates memory on the rank's device; it is freed by free_all() or at the end.
  void* allocate(int rank, std::size_t bytes) {
    const auto allocation = state(rank).allocator.allocate(bytes, handle(rank));
    if (allocation.block != nullptr) blocks_.emplace_back(rank, allocation.block);
    return allocation.memory;
  }
  /// Makes sure that no test finds another one's data in its memory: simulated memory is poisoned when freed, and cards
  /// get fresh memory.
  void free_all() {
    free_blocks();
    if (!are_simulated())
      for (int rank = 0; rank < size(); ++rank) state(rank).allocator.empty_cache();
  }
  /// Allocates memory and writes these bytes to it on the rank's stream.
  void* put(int rank, std::span<const std::byte> bytes) {
    void* const memory = allocate(rank, bytes.size());
    write(rank, memory, bytes);
    return memory;
  }
  void write(int rank, void* memory, std::span<const std::byte> bytes) {
    const std::size_t n = bytes.size();
    state(rank).backend.copy(
        handle(rank),
        {.to = memory, .from = bytes.data(), .to_device = rank, .row_bytes = n, .to_pitch = n, .from_pitch = n});
  }
  /// Waits for the rank's stream.
  Bytes get(int rank, const void* memory, std::size_t n) {
    Bytes bytes(n);
    read(rank, memory, bytes);
    return bytes;
  }
  /// Returns true if the memory holds these bytes. Waits for the rank's stream.
  bool holds(int rank, const void* memory, std::span<const std::byte> bytes) {
    if (seen_.size() < bytes.size()) seen_.resize(bytes.size());
    const auto seen = std::span(seen_).first(bytes.size());
    if (!seen.empty()) std::memset(seen.data(), 0, seen.size());
    read(rank, memory, seen);
    return same(seen, bytes);
  }
  template <class T>
  std::vector<T> values(int rank, const void* memory, std::size_t count) {
    return values_of<T>(get(rank, memory, count * sizeof(T)));
  }

  /// Allocates one buffer of `bytes` for each rank.
  std::vector<void*> allocate_all(std::size_t bytes) {
    std::vector<void*> all;
    for (int rank = 0; rank < size(); ++rank) all.push_back(allocate(rank, bytes));
    return all;
  }
  std::vector<void*> put_all(const std::vector<Bytes>& contents) { return put_all(std::span(contents)); }
  std::vector<void*> put_all(std::span<const Bytes> contents) {
    std::vector<void*> all;
    for (int rank = 0; rank < size(); ++rank) all.push_back(put(rank, contents[std::size_t(rank)]));
    return all;
  }
  std::vector<RankBuffers> buffers(const std::vector<void*>& send, const std::vector<void*>& receive) const {
    std::vector<RankBuffers> result;
    for (std::size_t rank = 0; rank < streams.size(); ++rank)
      result.push_back({streams[rank], send[rank], receive[rank]});
    return result;
  }

  /// Launches a kernel on the rank's stream.
  template <class Body>
  void launch(int rank, const char* name, const std::vector<MemoryAccess>& accesses, const Body& body) {
    state(rank).backend.launch(handle(rank), {name, 0, accesses}, [body](const KernelContext&) { body(); });
  }

  void synchronize() const {
    for (const Stream& stream : streams) stream.synchronize();
  }

 private:
  static auto arguments(SimulationOptions options, int count) {
    options.count = count;
    if constexpr (std::is_same_v<Devices, SimulatedDevices>)
      return options;
    else
      return count;
  }
  void free_blocks() {
    for (const auto& [rank, block] : std::exchange(blocks_, {})) state(rank).allocator.free(block);
  }
  void read(int rank, const void* memory, std::span<std::byte> bytes) {
    const std::size_t n = bytes.size();
    state(rank).backend.copy(
        handle(rank),
        {.to = bytes.data(), .from = memory, .from_device = rank, .row_bytes = n, .to_pitch = n, .from_pitch = n});
  }

  std::vector<std::pair<int, Block*>> blocks_;
  Bytes seen_;  // kept, because allocating it anew costs more than the copy into it
};

using Ranks = RanksOn<SimulatedDevices>;
using AnyRanks = RanksOn<TestDevices>;  ///< For tests that must pass on every backend.

template <class ErrorType, class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const ErrorType& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another type of error: ") + error.what();
  }
  return "no error";
}

}  // namespace lockstep::testing
