// An error of asynchronous work: one object, shared by all streams that it has reached. Safe from any thread.
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
  /// `op` failed with `error` on the device of this name, because of `causes`. If this error is reported to the host,
  /// its causes count as reported too; if all causes are reported, so does this error.
  AsyncError(std::exception_ptr error, const char* op, const std::string& device,
             std::vector<std::shared_ptr<AsyncError>> causes = {});

  /// Called when work of a stream that holds this error has waited for work that failed with `other`. The host then
  /// gets both at once. If there is no memory for this, `other` is reported separately.
  void join(const std::shared_ptr<AsyncError>& other) noexcept;

  /// Clears and throws this error. The joined errors are cleared too, and attached. (If the exception is not an Error,
  /// it cannot hold them, and they are not cleared.)
  [[noreturn]] void clear_and_throw();

  /// Throws the error itself the first time, and later a new error with the same message. (Context is added to
  /// exceptions while they propagate, so two threads must not hold the same exception.)
  [[noreturn]] void rethrow();

  /// Returns a new exception with this error's message. It has the same type if that is BackendError, CollectiveError
  /// or RaceError, else it is a BackendError. When other work fails because of this error, the other work's error is
  /// made from the copy: for example, a collective attaches copies of its ranks' errors to its own error.
  std::exception_ptr copy() const;

  /// Called when the error was reported to the host. The streams that hold it then run work again.
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
  std::vector<std::weak_ptr<AsyncError>> joined_;  // their streams keep them alive until they are cleared
};

}  // namespace lockstep::sim
