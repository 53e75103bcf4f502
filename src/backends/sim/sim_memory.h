// The memory of simulated devices: the owner of each allocation, and each device's use. The caller guards it with a
// lock.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backends/sim/region.h"

namespace lockstep::sim {

inline constexpr int kHost = -1;

// Error codes of BackendErrors, from the CUDA runtime.
using lockstep::kDeviceLost;
inline constexpr int kIllegalAddress = 700;
inline constexpr int kLaunchFailure = 719;

class SimMemory {
 public:
  SimMemory(int devices, std::size_t bytes_per_device);
  ~SimMemory();
  SimMemory(const SimMemory&) = delete;
  SimMemory& operator=(const SimMemory&) = delete;

  /// For kHost allocates page-locked memory, without a limit. Returns null if the device (or this machine) has no room.
  void* allocate(int device, std::size_t bytes);

  /// Forbids all access to an allocation, which must still be released. Returns false if no allocation of the device
  /// begins here. `device` is kHost for page-locked memory.
  bool disown(int device, void* memory);
  static void release(void* memory) noexcept;

  /// Throws a BackendError that names `op` and the bytes' real location, unless the region is within one live
  /// allocation of `device`. For kHost the region must be within page-locked memory or outside all allocations.
  void expect(const char* op, int device, const Region& region, AccessKind kind) const;
  /// Throws BackendError unless the region is within page-locked memory.
  void expect_pinned(const char* op, const Region& region) const;

 private:
  struct Allocation {
    std::size_t bytes = 0;
    int device = 0;
  };
  struct Found {
    const Allocation* allocation = nullptr;
    std::size_t bytes = 0;  ///< From the address to the end of the allocation.
  };
  Found find(std::uintptr_t address) const;
  [[noreturn]] void refuse(const char* op, int device, const Region& region, AccessKind kind,
                           const Allocation* found) const;

  const std::size_t limit_bytes_;
  std::vector<std::size_t> used_bytes_;  // by device
  std::map<std::uintptr_t, Allocation> allocations_;
};

}  // namespace lockstep::sim
