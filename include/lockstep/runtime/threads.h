// How many cores operations on the CPU use.
#pragma once

#include <lockstep/core/export.h>

namespace lockstep {

/// At most `threads` cores for the operations of this process, from now on. Throws InvalidArgument unless it is from 1
/// to 1024.
LOCKSTEP_API void set_num_threads(int threads);
LOCKSTEP_API int num_threads();  ///< As set, or as many as there are cores.

}  // namespace lockstep
