#pragma once

#include <lockstep/core/dtype.h>

namespace lockstep {

/// For a kernel that finds what it cannot work with. On the host, where simulated devices run too, throws what
/// `throw_error()` throws. On a GPU it traps: the host gets a BackendError where it synchronizes, without the reason,
/// and the card is of no more use to the process.
template <class ThrowError>
LOCKSTEP_HD void fail(const ThrowError& throw_error) {
#ifdef __CUDA_ARCH__
  static_cast<void>(throw_error);
  __trap();
#else
  throw_error();
#endif
}

}  // namespace lockstep
