// How the host's threads of a device are started.
#pragma once

#include <lockstep/core/error.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace lockstep {

/// Throws BackendError, with the code of the operating system, where the process may have no more threads.
template <class Run>
std::thread start_thread(const std::string& device_name, Run&& run) {
  try {
    return std::thread(std::forward<Run>(run));
  } catch (const std::system_error& error) {
    throw BackendError("start_thread", error.code().value(), device_name, error.what());
  }
}

}  // namespace lockstep
