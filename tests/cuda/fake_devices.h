// Devices on fake cards, and memory on them, for tests of the backend.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include <lockstep/runtime/device.h>

#include "backends/cuda/cuda_backend.h"
#include "cuda/fake/fake_cuda.h"
#include "runtime/registry.h"

namespace lockstep {

using fake::machine;
using Bytes = std::vector<std::byte>;

// Replaces cuda:* by devices on fake cards.
class FakeDevices {
 public:
  explicit FakeDevices(CudaOptions options, int cards = 3, bool peers = true, std::size_t card_bytes = 64 << 20,
                       int capability = 9) {
    machine() = {};
    cuda::device_count();  // chooses the devices of cuda:* before there are cards
    machine().cards = cards;
    machine().capability = capability;
    machine().card_bytes = card_bytes;
    machine().peers = peers;
    options.deterministic = false;  // prints less on standard error
    outer_ = exchange_accelerators(std::make_shared<DeviceSet>(make_cuda_backend(options)));
  }
  ~FakeDevices() {
    exchange_accelerators(std::move(outer_));
    EXPECT_EQ(machine().complaint, "");
  }

 private:
  std::shared_ptr<DeviceSet> outer_;
};

inline DeviceState& card(int index) { return device_state(Device::cuda(index)); }

inline Bytes numbered(std::size_t bytes) {
  Bytes result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) result[i] = std::byte(i * 31 + i / 251);
  return result;
}

// Memory of a device, in stream order.
class DeviceBytes {
 public:
  DeviceBytes(int device, std::size_t bytes, int stream = 0)
      : device_(device),
        bytes_(bytes),
        stream_(card(device).stream(stream)),
        allocation_(card(device).allocator.allocate(bytes, stream_)) {}
  DeviceBytes(int device, const Bytes& values, int stream = 0) : DeviceBytes(device, values.size(), stream) {
    copy({.to = data(), .from = values.data(), .to_device = device, .row_bytes = bytes_});
  }
  ~DeviceBytes() { card(device_).allocator.free(allocation_.block); }
  DeviceBytes(const DeviceBytes&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(allocation_.memory); }
  StreamHandle stream() const { return stream_; }
  void copy(const Copy& copy) const { card(device_).backend.copy(stream_, copy); }
  Bytes get() const {
    Bytes result(bytes_);
    copy({.to = result.data(), .from = data(), .from_device = device_, .row_bytes = bytes_});
    return result;
  }

 private:
  int device_;
  std::size_t bytes_;
  StreamHandle stream_;
  CachingAllocator::Allocation allocation_;
};

}  // namespace lockstep
