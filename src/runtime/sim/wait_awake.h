// Waiting without going to sleep. Safe from any thread, if what `holds` reads is: it is called without a lock.
#pragma once

#include <chrono>
#include <thread>

namespace lockstep::sim {

/// Lets other threads run until `holds()`, and not longer than `limit`: by the clock, so what they take of the core
/// counts. Returns whether it holds.
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
