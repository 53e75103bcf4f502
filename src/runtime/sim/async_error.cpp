#include "runtime/sim/async_error.h"

#include <lockstep/core/error.h>

#include <string>
#include <utility>

#include "runtime/sim/sim_memory.h"

namespace lockstep::sim {
namespace {

// The message without the "[api] failed on device with code: " that the constructor will put before it again.
std::string reason_of(const BackendError& error) {
  const std::string message = error.what();
  const std::string prefix = BackendError(error.api, error.code, error.device, "").what();
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

std::function<void()> thrower(const std::exception_ptr& error, const char* op, const std::string& device) {
  try {
    std::rethrow_exception(error);
  } catch (const BackendError& e) {
    return
        [api = e.api, code = e.code, device, reason = reason_of(e)] { throw BackendError(api, code, device, reason); };
  } catch (const RaceError& e) {
    return [message = std::string(e.what())] { throw RaceError(message); };
  } catch (const std::exception& e) {
    return [op, device, message = std::string(e.what())] { throw BackendError(op, kLaunchFailure, device, message); };
  } catch (...) {
    return [op, device] { throw BackendError(op, kLaunchFailure, device, "an exception of unknown type"); };
  }
}

}  // namespace

AsyncError::AsyncError(std::exception_ptr error, const char* op, const std::string& device)
    : throw_copy_(thrower(error, op, device)) {
  first_ = std::move(error);
}

void AsyncError::raise() {
  if (!taken_.exchange(true)) std::rethrow_exception(std::exchange(first_, nullptr));
  throw_copy_();
  std::terminate();  // not reached
}

}  // namespace lockstep::sim
