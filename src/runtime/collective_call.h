// What a CollectiveCall means, whatever the backend: what each rank touches, whose data reach it, and whether the
// arguments make sense. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/backend.h"

namespace lockstep {

// Here `rank` is of this process: that of call.parts.

/// What a rank reads and writes, in its own memory.
std::vector<MemoryAccess> accesses_of(const CollectiveCall& call, std::size_t rank);

/// The other ranks whose data a rank receives: its part cannot end before theirs begin, whatever the implementation.
std::vector<std::size_t> senders_of(const CollectiveCall& call, std::size_t rank);

/// Throws InvalidArgument, or DTypeError for a mean of integers, naming the operation and the rank.
void check(const CollectiveCall& call);

/// The bytes of the call, as errors tell them.
std::size_t bytes_of(const CollectiveCall& call) noexcept;

}  // namespace lockstep
