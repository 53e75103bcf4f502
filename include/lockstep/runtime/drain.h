// What throws out of work on several devices leaves nothing of its failure in their streams. For the library.
#pragma once

#include <span>

#include <lockstep/core/export.h>
#include <lockstep/runtime/device.h>

namespace lockstep::detail {

/// To be called in a handler. Waits for all that is enqueued on the devices, takes the errors of their streams, and
/// rethrows the exception, with those attached that say something else; where it is no Error, they are told on standard
/// error.
[[noreturn]] LOCKSTEP_API void rethrow_drained(std::span<const Device> devices);

/// The result of `work`; where that throws, the devices are drained first.
template <class Work>
decltype(auto) draining(std::span<const Device> devices, const Work& work) {
  try {
    return work();
  } catch (...) {
    rethrow_drained(devices);
  }
}

}  // namespace lockstep::detail
