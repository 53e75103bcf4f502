// What a process may do that was forked from one that used Lockstep. It has none of the threads of the other, and would
// wait for them for ever.
#pragma once

#include <atomic>

namespace lockstep {

namespace detail {
inline std::atomic<bool> forked = false;  // this process was, from one that had loops or devices
inline std::atomic<bool> forked_from_user_of_gpus = false;
[[noreturn]] void throw_forked(const char* op);
}  // namespace detail

/// To be called before threads are started for loops on the CPU.
void watch_forks();
/// To be called before threads are started for GPUs.
void watch_forks_of_gpus();

/// Whether the threads that watch_forks() was called for are missing.
inline bool is_forked() noexcept { return detail::forked.load(std::memory_order_relaxed); }
/// Throws BackendError in a process that was forked from one that had used GPUs.
inline void refuse_after_fork(const char* op) {
  if (detail::forked_from_user_of_gpus.load(std::memory_order_relaxed)) detail::throw_forked(op);
}

}  // namespace lockstep
