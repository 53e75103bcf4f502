#include "backends/sim/async_error.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "backends/sim/sim_memory.h"
#include "runtime/reported_failures.h"

namespace lockstep::sim {
namespace {

// Returns the error's message without the prefix that the constructor, which made `unexplained`, will add again.
std::string reason_of(const Error& error, const Error& unexplained) {
  const std::string message = error.what(), prefix = unexplained.what();
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

std::function<void()> thrower(const std::exception_ptr& error, const char* op, const std::string& device) {
  try {
    std::rethrow_exception(error);
  } catch (const BackendError& e) {
    const std::string reason = reason_of(e, BackendError(e.api, e.code, e.device, ""));
    return [api = e.api, code = e.code, device, reason] { throw BackendError(api, code, device, reason); };
  } catch (const CollectiveError& e) {
    const std::string reason = reason_of(e, CollectiveError(e.rank, e.operation, e.bytes, ""));
    return [rank = e.rank, operation = e.operation, bytes = e.bytes, reason, attached = e.attached()] {
      CollectiveError again(rank, operation, bytes, reason);
      for (const std::exception_ptr& other : attached) again.attach(other);
      throw again;
    };
  } catch (const RaceError& e) {
    return [message = std::string(e.what())] { throw RaceError(message); };
  } catch (const std::exception& e) {
    return [op, device, message = std::string(e.what())] { throw BackendError(op, kLaunchFailure, device, message); };
  } catch (...) {
    return [op, device] { throw BackendError(op, kLaunchFailure, device, "an exception of unknown type"); };
  }
}

}  // namespace

AsyncError::AsyncError(std::exception_ptr error, const char* op, const std::string& device,
                       std::vector<std::shared_ptr<AsyncError>> causes)
    : throw_copy_(thrower(error, op, device)), causes_(std::move(causes)) {
  first_ = std::move(error);
}

void AsyncError::join(const std::shared_ptr<AsyncError>& other) noexcept try {
  const std::scoped_lock lock(mutex_);
  if (std::ranges::none_of(joined_, [&](const auto& each) { return each.lock() == other; })) joined_.push_back(other);
} catch (const std::bad_alloc&) {
}

void AsyncError::clear_and_throw() {
  clear();
  try {
    rethrow();
  } catch (Error& error) {
    attach_joined_to(error);
    throw;
  }
}

void AsyncError::attach_joined_to(Error& error) {
  std::vector<std::weak_ptr<AsyncError>> joined;
  {
    const std::scoped_lock lock(mutex_);
    joined = joined_;
  }
  for (const auto& each : joined) {
    const std::shared_ptr<AsyncError> other = each.lock();
    if (!other || other->is_cleared()) continue;
    other->clear();
    try {
      other->rethrow();
    } catch (...) {
      error.attach(std::current_exception());
    }
    other->attach_joined_to(error);
  }
}

void AsyncError::rethrow() {
  if (!taken_.exchange(true)) std::rethrow_exception(std::exchange(first_, nullptr));
  throw_copy_();
  std::terminate();  // not reached
}

std::exception_ptr AsyncError::copy() const {
  try {
    throw_copy_();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;  // not reached
}

void AsyncError::clear() noexcept {
  cleared_ = true;
  ++reported_failures;  // after cleared_ is set: work that is enqueued from now on is not skipped
  for (const std::shared_ptr<AsyncError>& cause : causes_) cause->clear();
}

bool AsyncError::is_cleared() const noexcept {
  if (cleared_) return true;
  const auto told = [](const std::shared_ptr<AsyncError>& cause) { return cause->is_cleared(); };
  return !causes_.empty() && std::all_of(causes_.begin(), causes_.end(), told);
}

}  // namespace lockstep::sim
