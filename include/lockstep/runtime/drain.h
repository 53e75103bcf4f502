// Draining after an exception: no error of failed work on several devices is left in their streams. For the library.
#pragma once

#include <span>

#include <lockstep/core/export.h>
#include <lockstep/runtime/device.h>

namespace lockstep::detail {

/// To be called in a handler. Waits for all work enqueued on the devices, takes the errors of their streams, and
/// rethrows the current exception. If a stream's error has another message, it is attached to the exception, or printed
/// on standard error if the exception is not an Error.
[[noreturn]] LOCKSTEP_API void rethrow_drained(std::span<const Device> devices);

/// Returns the result of `work`. If it throws, drains the devices and rethrows.
template <class Work>
decltype(auto) draining(std::span<const Device> devices, const Work& work) {
  try {
    return work();
  } catch (...) {
    rethrow_drained(devices);
  }
}

}  // namespace lockstep::detail
