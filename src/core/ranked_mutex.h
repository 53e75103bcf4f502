// Mutexes with a rank in the order of all locks. Debug and sanitizer builds (those without NDEBUG) check the order at
// each lock and abort with both names; in other builds a RankedMutex is just its native mutex.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <type_traits>

#include "core/lock_rank.h"

namespace lockstep {

#ifdef NDEBUG
inline constexpr bool kChecksLocks = false;
#else
inline constexpr bool kChecksLocks = true;
#endif

namespace detail {
void about_to_lock(LockRank rank) noexcept;  // aborts if a held lock has this rank or a later one
void has_locked(LockRank rank) noexcept;     // called after try_lock(), which cannot deadlock: checks nothing
void has_unlocked(LockRank rank) noexcept;
void abort_if_any_is_held(const char* function) noexcept;

// Pauses the processor in a spin loop.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}
}  // namespace detail

/// Usable with std::scoped_lock and std::unique_lock. lock() spins for a few microseconds before it blocks: most locks
/// are held for less time than blocking and waking up take.
template <LockRank kRank, class Native = std::mutex>
class RankedMutex {
 public:
  void lock() {
    if constexpr (kChecksLocks) detail::about_to_lock(kRank);
    if constexpr (std::is_same_v<Native, std::mutex>) {
      for (int pauses = 1; pauses <= kMaxPauses; pauses *= 2) {
        if (native_.try_lock()) return;
        for (int i = 0; i < pauses; ++i) detail::relax();
      }
    }
    native_.lock();
  }
  bool try_lock() {
    const bool locked = native_.try_lock();
    if constexpr (kChecksLocks) {
      if (locked) detail::has_locked(kRank);
    }
    return locked;
  }
  void unlock() {
    native_.unlock();
    if constexpr (kChecksLocks) detail::has_unlocked(kRank);
  }

 private:
  friend class RankedCondition;
  static constexpr int kMaxPauses = 128;
  Native native_;
};

/// std::condition_variable for ranked mutexes. A thread that waits on a condition still counts as the lock's holder in
/// rank checks.
class RankedCondition {
 public:
  template <LockRank kRank>
  void wait(std::unique_lock<RankedMutex<kRank>>& lock) {
    std::unique_lock<std::mutex> native(lock.mutex()->native_, std::adopt_lock);
    condition_.wait(native);
    native.release();
  }
  template <LockRank kRank, class Done>
  void wait(std::unique_lock<RankedMutex<kRank>>& lock, const Done& done) {
    while (!done()) wait(lock);
  }
  template <LockRank kRank, class Clock, class Duration>
  std::cv_status wait_until(std::unique_lock<RankedMutex<kRank>>& lock,
                            const std::chrono::time_point<Clock, Duration>& time) {
    std::unique_lock<std::mutex> native(lock.mutex()->native_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(native, time);
    native.release();
    return status;
  }
  /// Waits until done() returns true or `time` has come. Returns the last result of done().
  template <LockRank kRank, class Clock, class Duration, class Done>
  bool wait_until(std::unique_lock<RankedMutex<kRank>>& lock, const std::chrono::time_point<Clock, Duration>& time,
                  const Done& done) {
    while (!done())
      if (wait_until(lock, time) == std::cv_status::timeout) return done();
    return true;
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

/// Called by functions that may run arbitrary jobs while they wait. Aborts if the caller holds a lock.
inline void expect_no_lock(const char* function) noexcept {
  if constexpr (kChecksLocks) detail::abort_if_any_is_held(function);
}

}  // namespace lockstep
