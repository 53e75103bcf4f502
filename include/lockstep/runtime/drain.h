// Draining devices after an exception, so that their streams keep no error of the failed work. For the library.
#pragma once

#include <span>

#include <lockstep/core/export.h>
#include <lockstep/runtime/device.h>

namespace lockstep::detail {

/// Call this in a handler. Waits for all work enqueued on the devices, takes the errors of their streams, and rethrows
/// the current exception. A stream's error with another message than the exception is attached to it, or printed on
/// standard error if the exception is not an Error.
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
