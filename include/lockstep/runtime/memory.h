// What the caching allocator of a device holds. All sizes are bytes. Safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>

#include <lockstep/core/export.h>
#include <lockstep/runtime/device.h>

namespace lockstep {

/// What an allocator has handed out and taken.
struct MemoryStats {
  std::size_t in_use = 0;                 ///< Handed out and not yet returned, rounded up to whole blocks.
  std::size_t peak_in_use = 0;            ///< The most that in_use has been since the last reset.
  std::size_t reserved = 0;               ///< Taken from the backend: in use and cached.
  std::size_t peak_reserved = 0;          ///< The most that reserved has been.
  std::uint64_t allocations = 0;          ///< Requests served.
  std::uint64_t frees = 0;                ///< Blocks returned.
  std::uint64_t backend_allocations = 0;  ///< Requests that had to go to the backend.
  std::uint64_t backend_frees = 0;        ///< How often memory was given back to the backend.
  std::uint64_t retries = 0;              ///< Times the cache was emptied because the backend was full.
};

/// Throws InvalidArgument if there is no such device.
LOCKSTEP_API MemoryStats memory_stats(Device device);
/// Sets both peaks to their current values.
LOCKSTEP_API void reset_peak_memory(Device device);
/// Gives every whole free segment back to the backend.
LOCKSTEP_API void empty_cache(Device device);
namespace cuda {
/// The same of every visible GPU; nothing where there is none.
LOCKSTEP_API void empty_cache();
}  // namespace cuda

/// A table of all devices: name, memory in use, peak and total.
LOCKSTEP_API void print_devices(std::ostream& out);

}  // namespace lockstep
