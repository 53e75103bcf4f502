// Statistics of the devices' caching allocators. All sizes are bytes. Safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>

#include <lockstep/core/export.h>
#include <lockstep/runtime/device.h>

namespace lockstep {

/// An allocator's statistics.
struct MemoryStats {
  std::size_t in_use = 0;                 ///< Handed out and not yet returned, rounded up to whole blocks.
  std::size_t peak_in_use = 0;            ///< The most that in_use has been since the last reset.
  std::size_t reserved = 0;               ///< Taken from the backend: blocks in use and cached ones.
  std::size_t peak_reserved = 0;          ///< The most that reserved has been since the last reset.
  std::uint64_t allocations = 0;          ///< Requests served.
  std::uint64_t frees = 0;                ///< Blocks returned.
  std::uint64_t backend_allocations = 0;  ///< Requests to the backend.
  std::uint64_t backend_frees = 0;        ///< Segments given back to the backend.
  std::uint64_t retries = 0;              ///< How often the cache was emptied because the device had no memory left.
};

/// Throws InvalidArgument if there is no such device.
LOCKSTEP_API MemoryStats memory_stats(Device device);
/// Sets both peaks to the current values.
LOCKSTEP_API void reset_peak_memory(Device device);
/// Gives all entirely free segments back to the backend.
LOCKSTEP_API void empty_cache(Device device);
namespace cuda {
/// Empties the caches of all visible GPUs; does nothing without GPUs.
LOCKSTEP_API void empty_cache();
}  // namespace cuda

/// A table of all devices: name, memory in use, peak and total.
LOCKSTEP_API void print_devices(std::ostream& out);

}  // namespace lockstep
