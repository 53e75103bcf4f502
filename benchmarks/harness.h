// Times one function and prints one JSON object a line: {"name": ..., "med_us": ..., "min_us": ..., "samples": ...,
// "calls": ...}. BENCH_SECONDS (default 2) bounds a case; BENCH_THREADS is read by the programs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cores.h"

namespace bench {

inline double from_environment(const char* name, double otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtod(text, nullptr) : otherwise;
}

/// Microseconds that one of `calls` calls takes.
template <class Function>
double time_calls(long calls, Function& function) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (long i = 0; i < calls; ++i) function();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / double(calls);
}

/// After a warm-up, samples of about 2 ms each for BENCH_SECONDS, at least five; prints the median and the least.
template <class Function>
void run(const std::string& name, Function function) {
  time_calls(3, function);
  long calls = 1;
  while (calls < (1 << 20) && time_calls(calls, function) * double(calls) < 2000) calls *= 2;
  std::vector<double> samples;
  const double budget_us = 1e6 * from_environment("BENCH_SECONDS", 2);
  for (double spent = 0; spent < budget_us || samples.size() < 5; spent += samples.back() * double(calls))
    samples.push_back(time_calls(calls, function));
  std::sort(samples.begin(), samples.end());
  std::printf("{\"name\": \"%s\", \"med_us\": %.4f, \"min_us\": %.4f, \"samples\": %zu, \"calls\": %ld}\n",
              name.c_str(), samples[samples.size() / 2], samples.front(), samples.size(), calls);
  std::fflush(stdout);
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Calls one function and its peer in turns for BENCH_SECONDS, at least five times each; prints the medians of their
/// times and of the ratio of a turn's two. Under "near" and "far" are the turns before, between and after which the
/// cores shared a cache, or did not (cores.h).
template <class Function, class Peer>
void compare(const std::string& name, Function function, Peer peer) {
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
              median(times), median(peer_times), median(ratios), times.size());
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
