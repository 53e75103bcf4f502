// Memory of this machine for devices that compute on its processor.
#pragma once

#include <cstddef>

namespace lockstep::host {

/// Aligned to a page; from one huge page (2 MiB) on to that, and on huge pages where the system grants them: training
/// walks through more memory than the processor remembers addresses of in small ones. Null where there is none left.
void* allocate(std::size_t bytes) noexcept;
void deallocate(void* memory) noexcept;

}  // namespace lockstep::host
