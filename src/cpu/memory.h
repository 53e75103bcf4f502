// Host memory for devices that compute on the processor, and copies of it.
#pragma once

#include <cstddef>

#include "runtime/backend.h"

namespace lockstep::host {

/// Allocates page-aligned memory. Blocks of 2 MiB or more are aligned to huge pages and ask the system for them,
/// because the TLB covers too little memory with small pages. Returns null if there is no memory left.
void* allocate(std::size_t bytes) noexcept;
void deallocate(void* memory) noexcept;

/// Copies before it returns. The two memories may overlap if the context is serial.
void copy(const KernelContext& context, const Copy& copy);

}  // namespace lockstep::host
