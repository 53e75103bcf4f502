// How far apart the cores are. Two cores that share a cache hand a line to each other in tens of nanoseconds; on two
// chiplets of one processor that takes hundreds. Virtual machines can be moved between the two within seconds, and what
// depends on what cores hand to each other changes with them.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

namespace bench {

/// Round trips between cores that share a cache are shorter, those between others longer.
constexpr double kSharedCacheNs = 120;

/// Keeps this thread on one core while it lives.
class OnCore {
 public:
  explicit OnCore(int cpu) {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~OnCore() { sched_setaffinity(0, sizeof(before_), &before_); }
  OnCore(const OnCore&) = delete;
  OnCore& operator=(const OnCore&) = delete;

 private:
  cpu_set_t before_;
};

/// Nanoseconds in which a cache line goes from the first allowed core to the second and back: the least of eight means
/// of 50. Takes less than a millisecond. Not a number where there is one core only.
inline double round_trip_ns() {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 2; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  if (cpus.size() < 2) return std::numeric_limits<double>::quiet_NaN();

  constexpr int kRounds = 8, kTrips = 50;
  std::atomic<int> line = 0;
  std::thread other([&] {
    const OnCore second(cpus[1]);
    for (int trip = 0; trip < kRounds * kTrips; ++trip) {
      while (line.load() != 2 * trip + 1) continue;
      line.store(2 * trip + 2);
    }
  });
  double least = std::numeric_limits<double>::infinity();
  {
    const OnCore first(cpus[0]);
    for (int round = 0, trip = 0; round < kRounds; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kTrips; ++i, ++trip) {
        line.store(2 * trip + 1);
        while (line.load() != 2 * trip + 2) continue;
      }
      const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
      least = std::min(least, taken.count() / kTrips);
    }
  }
  other.join();
  return least;
}

}  // namespace bench
