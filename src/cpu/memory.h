// Host memory for devices that compute on the processor.
#pragma once

#include <cstddef>

namespace lockstep::host {

/// Page-aligned; from the size of a huge page (2 MiB) on, aligned to huge pages, and on huge pages if the system grants
/// them: training touches more memory than the TLB covers with small pages. Returns null if there is no memory left.
void* allocate(std::size_t bytes) noexcept;
void deallocate(void* memory) noexcept;

}  // namespace lockstep::host
