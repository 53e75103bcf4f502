// An error of asynchronous work: one object, shared by every stream that it has reached. Safe from any thread.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::sim {

class AsyncError {
 public:
  /// `op` failed on `device` (its name), because of `causes`: who is told of one is told of the other.
  AsyncError(std::exception_ptr error, const char* op, const std::string& device,
             std::vector<std::shared_ptr<AsyncError>> causes = {});

  /// Throws the error itself the first time, and a new one with the same message after that: an exception is added
  /// to while it travels, so two threads must not hold the same one.
  [[noreturn]] void raise();

  /// A new exception with the same type and message, for an error that this one causes.
  std::exception_ptr copy() const;

  /// The host has been told: the streams that hold this error work on.
  void clear() noexcept;
  bool is_cleared() const noexcept;

 private:
  std::exception_ptr first_;
  std::function<void()> throw_copy_;
  std::atomic<bool> taken_ = false;
  std::atomic<bool> cleared_ = false;
  const std::vector<std::shared_ptr<AsyncError>> causes_;
};

}  // namespace lockstep::sim
