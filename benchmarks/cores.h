// Measures the distance between two cores. Two cores that share a cache exchange a cache line in tens of nanoseconds;
// on two chiplets of one processor that takes hundreds. A hypervisor can move a virtual machine between the two
// situations within seconds, which changes every time that depends on communication between cores.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

namespace bench {

/// Round trips between cores that share a cache take less, between others more.
constexpr double kSharedCacheNs = 120;

/// Pins this thread to one core while it lives.
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
/// of 50. Takes less than a millisecond. NaN if only one core is allowed.
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
