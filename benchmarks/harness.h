// Times one function and prints one JSON object per line: {"name": ..., "med_us": ..., "min_us": ..., "samples": ...,
// "calls": ...}. BENCH_SECONDS (default 2) bounds the time per name; the programs read BENCH_THREADS and BENCH_DEVICE.
// Does not depend on Lockstep, so that the peers' programs use the same clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace bench {

inline double from_environment(const char* name, double otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtod(text, nullptr) : otherwise;
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The device to measure, from BENCH_DEVICE: "cpu" by default.
inline std::string device() {
  const char* const text = std::getenv("BENCH_DEVICE");
  return text ? text : "cpu";
}

/// Waits for the device at the end of each sample. Set by programs whose device works asynchronously.
inline std::function<void()> wait_for_device = [] {};

/// Microseconds per call, averaged over `calls` calls, including the device's work.
template <class Function>
double time_calls(long calls, Function& function) {
  using Clock = std::chrono::steady_clock;
  wait_for_device();
  const auto start = Clock::now();
  for (long i = 0; i < calls; ++i) function();
  wait_for_device();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / double(calls);
}

struct Timing {
  double median_us = 0, least_us = 0;
  std::size_t samples = 0;
  long calls = 1;  // per sample
};

/// Warms up, then takes samples of about 2 ms for `seconds`, at least five.
template <class Function>
Timing measure(double seconds, Function& function) {
  time_calls(3, function);
  Timing timing;
  while (timing.calls < (1 << 20) && time_calls(timing.calls, function) * double(timing.calls) < 2000)
    timing.calls *= 2;
  std::vector<double> samples;
  for (double spent_us = 0; spent_us < 1e6 * seconds || samples.size() < 5;
       spent_us += samples.back() * double(timing.calls))
    samples.push_back(time_calls(timing.calls, function));
  timing.median_us = median(samples);
  timing.least_us = *std::min_element(samples.begin(), samples.end());
  timing.samples = samples.size();
  return timing;
}

/// Measures for BENCH_SECONDS, and prints the result.
template <class Function>
void run(const std::string& name, Function function) {
  const Timing timing = measure(from_environment("BENCH_SECONDS", 2), function);
  std::printf("{\"name\": \"%s\", \"med_us\": %.4f, \"min_us\": %.4f, \"samples\": %zu, \"calls\": %ld}\n",
              name.c_str(), timing.median_us, timing.least_us, timing.samples, timing.calls);
  std::fflush(stdout);
}

/// A field of /proc/self/status, such as "VmHWM" (peak resident memory) or "VmRSS", in MB (1e6 bytes).
inline double memory_mb(const std::string& line) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != line + ":") continue;
    double kib = 0;
    status >> kib;
    return kib * 1024 / 1e6;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

using Cases = std::map<std::string, std::function<void()>>;

/// Runs the case named on the command line, and prints the process's peak memory. Returns main()'s result.
inline int run_case(int argc, char** argv, const Cases& cases) {
  if (argc != 2 || cases.count(argv[1]) == 0) {
    std::fprintf(stderr, "usage: %s CASE, one of:", argv[0]);
    for (const auto& [name, run] : cases) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  cases.at(argv[1])();
  std::printf("{\"name\": \"%s\", \"peak_mb\": %.1f}\n", argv[1], memory_mb("VmHWM"));
  return 0;
}

}  // namespace bench
