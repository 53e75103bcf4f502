// Starts the host threads of devices.
#pragma once

#include <lockstep/core/error.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace lockstep {

/// Starts a host thread of the device `device_name` that calls run(). Throws BackendError, with the operating system's
/// error code, if the process may have no more threads.
template <class Run>
std::thread start_thread(const std::string& device_name, Run&& run) {
  try {
    return std::thread(std::forward<Run>(run));
  } catch (const std::system_error& error) {
    throw BackendError("start_thread", error.code().value(), device_name, error.what());
  }
}

}  // namespace lockstep
