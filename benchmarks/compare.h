// Measures a function and its peer alternately in one process.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cores.h"
#include "harness.h"

namespace bench {

/// Calls a function and its peer alternately for BENCH_SECONDS, at least five times each. Prints the medians of their
/// times per step (`steps` per call), and of the ratios of a call's time to that of the peer's call after it. "near"
/// and "far" have the pairs of calls during which the two cores shared a cache at every measurement, or at none
/// (cores.h).
template <class Function, class Peer>
void compare(const std::string& name, Function function, Peer peer, long steps = 1) {
  time_calls(2, function);
  time_calls(2, peer);
  std::vector<double> times, peer_times, ratios, near, far;
  const double budget_us = 1e6 * from_environment("BENCH_SECONDS", 2);
  double before = round_trip_ns();
  for (double spent = 0; spent < budget_us || times.size() < 5; spent += times.back() + peer_times.back()) {
    times.push_back(time_calls(1, function));
    const double between = round_trip_ns();
    peer_times.push_back(time_calls(1, peer));
    const double after = round_trip_ns();
    ratios.push_back(times.back() / peer_times.back());
    if (std::max({before, between, after}) < kSharedCacheNs) near.push_back(ratios.back());
    if (std::min({before, between, after}) >= kSharedCacheNs) far.push_back(ratios.back());
    before = after;
  }
  std::printf("{\"name\": \"%s\", \"med_us\": %.1f, \"peer_us\": %.1f, \"ratio\": %.3f, \"samples\": %zu", name.c_str(),
              median(times) / double(steps), median(peer_times) / double(steps), median(ratios), times.size());
  const auto print_turns = [](const char* where, const std::vector<double>& turns) {
    if (!turns.empty())
      std::printf(", \"%s\": {\"ratio\": %.3f, \"samples\": %zu}", where, median(turns), turns.size());
  };
  print_turns("near", near);
  print_turns("far", far);
  std::printf("}\n");
  std::fflush(stdout);
}

}  // namespace bench
