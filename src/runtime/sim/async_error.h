// An error of asynchronous work: one object, shared by every stream that it has reached. Safe from any thread.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>

namespace lockstep::sim {

class AsyncError {
 public:
  /// `op` failed on `device` (its name).
  AsyncError(std::exception_ptr error, const char* op, const std::string& device);

  /// Throws the error itself the first time, and a new one with the same message after that: an exception is added
  /// to while it travels, so two threads must not hold the same one.
  [[noreturn]] void raise();

  /// The host has been told: the streams that hold this error work on.
  void clear() noexcept { cleared_ = true; }
  bool is_cleared() const noexcept { return cleared_; }

 private:
  std::exception_ptr first_;
  std::function<void()> throw_copy_;
  std::atomic<bool> taken_ = false;
  std::atomic<bool> cleared_ = false;
};

}  // namespace lockstep::sim
