// The processes of a job, simulated as threads of the test.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/random.h>

#include "support/thrown.h"

namespace lockstep::testing {

/// Runs f in `count` processes at once. Returns the exception of each; null if it threw none. Each process has a random
/// generator of its own, with the same seed.
inline std::vector<std::exception_ptr> in_processes(int count, const std::function<void(const World& world)>& f,
                                                    std::chrono::milliseconds time_limit = std::chrono::seconds(30)) {
  const std::vector<World> worlds = simulate_processes(count, time_limit);
  std::vector<std::exception_ptr> failures(worlds.size());
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < worlds.size(); ++p)
    threads.emplace_back([&, p] {
      GeneratorState generator{.seed = 1};
      const GeneratorGuard guard(generator);
      try {
        f(worlds[p]);
      } catch (...) {
        failures[p] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return failures;
}

/// Returns the message if the failure is an E; otherwise a text that says what was thrown instead.
template <class E>
std::string message_of(const std::exception_ptr& failure) {
  return thrown<E>([&] {
    if (failure) std::rethrow_exception(failure);
  });
}

/// Returns one message per process: that of the E that f threw there.
template <class E>
std::vector<std::string> thrown_in_processes(int count, const std::function<void(const World& world)>& f) {
  std::vector<std::string> messages;
  for (const std::exception_ptr& failure : in_processes(count, f)) messages.push_back(message_of<E>(failure));
  return messages;
}

}  // namespace lockstep::testing
