// Detects jobs that deadlock.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <vector>

namespace lockstep::testing {

/// Runs the jobs at once, each on a thread of its own, and rethrows a job's exception. Ends the process if a job has
/// not ended after a minute, because it cannot be joined.
inline void must_end(const std::vector<std::function<void()>>& jobs) {
  std::vector<std::future<void>> running;
  for (const auto& job : jobs) running.push_back(std::async(std::launch::async, job));
  for (std::future<void>& each : running)
    if (each.wait_for(std::chrono::minutes(1)) != std::future_status::ready) {
      std::fputs("still waiting after a minute\n", stderr);
      std::abort();
    }
  for (std::future<void>& each : running) each.get();
}

}  // namespace lockstep::testing
