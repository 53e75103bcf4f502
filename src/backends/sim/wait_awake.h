// Waits for a condition without sleeping.
#pragma once

#include <chrono>
#include <thread>

namespace lockstep::sim {

/// Yields until `holds()`, which is called without a lock, returns true, at most for `limit` of wall-clock time.
/// Returns true if it holds. Safe from any thread if holds() is.
template <class Predicate>
bool wait_awake(std::chrono::microseconds limit, const Predicate& holds) {
  using Steady = std::chrono::steady_clock;
  const Steady::time_point sleep_at = Steady::now() + limit;
  while (!holds()) {
    if (Steady::now() >= sleep_at) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace lockstep::sim
