// The meaning of a CollectiveCall, for all backends: the memory that each rank accesses, the ranks whose data it
// receives, the reductions that it consists of, and the check of the arguments. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/backend.h"

namespace lockstep {

// In all functions below, `rank` is an index into call.parts: a rank of this process.

/// The regions that a rank reads and writes in its own memory.
std::vector<MemoryAccess> accesses_of(const CollectiveCall& call, std::size_t rank);

/// The other ranks whose data a rank receives. The rank's part cannot end before the parts of these ranks have begun.
std::vector<std::size_t> senders_of(const CollectiveCall& call, std::size_t rank);

/// Checks the arguments. Throws an InvalidArgument, or a DTypeError for a mean of integers, with the operation's name
/// and the rank.
void check(const CollectiveCall& call);

/// target[i] = sources[0][i] op sources[1][i] op ..., for every target; i < count. With one source it is a copy.
struct RankReduction {
  std::vector<const void*> sources;
  std::vector<void*> targets;
  std::size_t count = 0;
};
/// The reductions and copies, none of them empty, that the call of a single process consists of.
std::vector<RankReduction> reductions_of(const CollectiveCall& call);

/// The bytes of the call, as reported in errors.
std::size_t bytes_of(const CollectiveCall& call) noexcept;

}  // namespace lockstep
