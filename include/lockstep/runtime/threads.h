// How many cores operations on the CPU use.
#pragma once

#include <lockstep/core/export.h>

namespace lockstep {

/// Limits the operations of this process to `threads` cores from now on. Throws InvalidArgument unless `threads` is
/// from 1 to 1024.
LOCKSTEP_API void set_num_threads(int threads);
LOCKSTEP_API int num_threads();  ///< The limit; by default the number of cores.

}  // namespace lockstep
