#pragma once

#include <lockstep/core/dtype.h>

namespace lockstep {

/// A kernel calls this when it finds an invalid value. On the host, and so on simulated devices, calls throw_error(),
/// which throws. On a GPU the kernel traps: the host gets a BackendError when it synchronizes, without the reason, and
/// the process cannot use the card any more.
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
