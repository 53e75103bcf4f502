#include <lockstep/runtime/drain.h>

#include <lockstep/core/error.h>

#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "core/text.h"
#include "runtime/graphs.h"
#include "runtime/registry.h"

namespace lockstep::detail {
namespace {

// The most errors to take from one stream. CUDA reports one failure per call, for any stream that is synchronized, and
// a lost card reports the same failure forever.
constexpr int kMaxErrors = 64;

void take_errors(DeviceState& device, std::vector<std::exception_ptr>& errors) {
  Graphs* const graphs = device.backend.graphs();
  for (const StreamHandle& stream : device.streams()) {
    if (graphs && graphs->is_capturing(stream)) continue;  // captured work does not run yet, so there is no error
    for (int i = 0; i < kMaxErrors; ++i) try {
        device.backend.synchronize_stream(stream);
        break;
      } catch (...) {
        errors.push_back(std::current_exception());
        if (device.backend.is_lost(device.device.index())) break;
      }
  }
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

// Returns true if `thrown`, or an error attached to it, has this message, with or without context after it.
bool says(const Error& thrown, const std::string& message) {
  if (std::string_view(thrown.what()).starts_with(message)) return true;
  for (const std::exception_ptr& other : thrown.attached())
    if (message_of(other).starts_with(message)) return true;
  return false;
}

}  // namespace

void rethrow_drained(std::span<const Device> devices) {
  const std::exception_ptr thrown = std::current_exception();
  std::vector<std::exception_ptr> errors;
  for (const Device& device : devices) try {
      if (device.is_cuda()) take_errors(device_state(device), errors);
    } catch (const Error&) {  // the device is gone, or this is a forked process
    }
  try {
    std::rethrow_exception(thrown);
  } catch (Error& error) {
    for (const std::exception_ptr& other : errors)
      if (!says(error, message_of(other))) error.attach(other);
    throw;
  } catch (...) {
    for (const std::exception_ptr& other : errors)
      std::cerr << text("[lockstep] another error, in addition to the one that was thrown: ", message_of(other), '\n');
    throw;
  }
}

}  // namespace lockstep::detail
