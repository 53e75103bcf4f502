// An error of asynchronous work: one object, shared by every stream that it has reached. Safe from any thread.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/core/error.h>

#include "core/ranked_mutex.h"

namespace lockstep::sim {

class AsyncError {
 public:
  /// `op` failed on `device` (its name), because of `causes`: who is told of one is told of the other.
  AsyncError(std::exception_ptr error, const char* op, const std::string& device,
             std::vector<std::shared_ptr<AsyncError>> causes = {});

  /// Work of a stream that holds this error has waited for work that failed with `other`: the host is told of both at
  /// once. Where there is no memory for that, `other` stays to be told by itself.
  void join(const std::shared_ptr<AsyncError>& other) noexcept;

  /// Clears this error and throws it, with those that it was joined with: cleared too, and attached. (What is no Error
  /// cannot hold them: then they stay.)
  [[noreturn]] void tell();

  /// Throws the error itself the first time, and a new one with the same message after that: an exception is added
  /// to while it travels, so two threads must not hold the same one.
  [[noreturn]] void raise();

  /// A new exception with the same type and message, for an error that this one causes.
  std::exception_ptr copy() const;

  /// The host has been told: the streams that hold this error work on.
  void clear() noexcept;
  bool is_cleared() const noexcept;

 private:
  void attach_joined_to(Error& error);

  std::exception_ptr first_;
  std::function<void()> throw_copy_;
  std::atomic<bool> taken_ = false;
  std::atomic<bool> cleared_ = false;
  const std::vector<std::shared_ptr<AsyncError>> causes_;
  RankedMutex<LockRank::sim_async_error> mutex_;
  std::vector<std::weak_ptr<AsyncError>> joined_;  // their streams hold them until they are cleared
};

}  // namespace lockstep::sim
