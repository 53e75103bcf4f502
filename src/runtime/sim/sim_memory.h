// The memory of simulated devices: who owns what, and how much of it a device has. The caller guards it with a lock.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/sim/region.h"

namespace lockstep::sim {

inline constexpr int kHost = -1;

// Codes of BackendErrors, as the CUDA runtime numbers them.
using lockstep::kDeviceLost;
inline constexpr int kIllegalAddress = 700;
inline constexpr int kLaunchFailure = 719;

class SimMemory {
 public:
  SimMemory(int devices, std::size_t bytes_per_device);
  ~SimMemory();
  SimMemory(const SimMemory&) = delete;
  SimMemory& operator=(const SimMemory&) = delete;

  /// Null if the device (or this machine) has no room.
  void* allocate(int device, std::size_t bytes);

  /// Page-locked memory of the host, of which there is no limit. Null if this machine has no room.
  void* allocate_pinned(std::size_t bytes);

  /// From now on nothing may touch this memory; it still has to be released. False if the device has no allocation
  /// that begins here. kHost for page-locked memory.
  bool disown(int device, void* memory);
  static void release(void* memory) noexcept;

  /// Throws BackendError, naming `op` and where the bytes really live, unless the region is within one live
  /// allocation of `device`, or for kHost in page-locked memory or in none at all.
  void expect(const char* op, int device, const Region& region, AccessKind kind) const;
  /// The same unless the region is within page-locked memory.
  void expect_pinned(const char* op, const Region& region) const;

 private:
  struct Allocation {
    std::size_t bytes = 0;
    int device = 0;
  };
  struct Found {
    const Allocation* allocation = nullptr;
    std::size_t bytes = 0;  ///< From the address to its end.
  };
  Found find(std::uintptr_t address) const;
  [[noreturn]] void refuse(const char* op, int device, const Region& region, AccessKind kind,
                           const Allocation* found) const;

  const std::size_t limit_bytes_;
  std::vector<std::size_t> used_bytes_;  // by device
  std::map<std::uintptr_t, Allocation> allocations_;
};

}  // namespace lockstep::sim
