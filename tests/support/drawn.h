// Random inputs of tests: different each day, the same for one seed. A failed test reports its seed.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace lockstep::testing {

/// Returns the number in an environment variable, or `otherwise`.
inline std::int64_t number_from(const char* variable, std::int64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::atoll(text) : otherwise;
}

/// LOCKSTEP_SEED, or else the number of the day.
inline std::int64_t seed_of_the_day() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return number_from("LOCKSTEP_SEED", std::chrono::duration_cast<std::chrono::hours>(now).count() / 24);
}

using Random = std::mt19937_64;

inline std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return low + std::int64_t(random() % std::uint64_t(high - low + 1));
}
inline bool one_in(Random& random, int count) { return random() % unsigned(count) == 0; }

}  // namespace lockstep::testing
