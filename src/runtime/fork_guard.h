// Checks for processes that were forked from one that used Lockstep. A forked process has none of its parent's threads,
// and would wait for them forever.
#pragma once

#include <atomic>

namespace lockstep {

namespace detail {
inline std::atomic<bool> forked = false;  // this process was forked after watch_forks()
inline std::atomic<bool> forked_from_user_of_gpus = false;
[[noreturn]] void throw_forked(const char* op);
}  // namespace detail

/// Call this before starting threads for loops on the CPU.
void watch_forks();
/// Call this before starting threads for GPUs.
void watch_forks_of_gpus();

/// Returns true if this process was forked after watch_forks(), and therefore lacks its parent's threads.
inline bool is_forked() noexcept { return detail::forked.load(std::memory_order_relaxed); }
/// Throws BackendError in a process that was forked from one that had used GPUs.
inline void refuse_after_fork(const char* op) {
  if (detail::forked_from_user_of_gpus.load(std::memory_order_relaxed)) detail::throw_forked(op);
}

}  // namespace lockstep
