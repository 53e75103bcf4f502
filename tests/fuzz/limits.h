// Limits: bounds on memory and time for reading an input, in addition to the sanitizers' checks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <sanitizer/allocator_interface.h>

namespace lockstep::fuzz {

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "expected %s\n", what);
  std::abort();
}

/// Counts allocations while it lives. The destructor aborts if their peak, or the processor time, exceeded the limits
/// for the input's size. One at a time.
class Limits {
 public:
  struct Of {
    /// Memory: a constant, which includes 2 MiB that the tensor allocator takes at once, and an amount per input byte.
    std::size_t bytes, bytes_per_byte;
    double seconds = 2;  ///< Constant part, with the slowdown of sanitizers.
    double microseconds_per_byte = 50;
  };

  Limits(std::size_t input_bytes, const Of& of)
      : most_bytes_(of.bytes + of.bytes_per_byte * input_bytes),
        most_seconds_(of.seconds + 1e-6 * of.microseconds_per_byte * double(input_bytes)),
        begin_(std::clock()) {
    static const int installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    require(installed > 0, "hooks of the allocator");
    held_ = peak_ = 0;
    counts_ = true;
  }
  ~Limits() {
    counts_ = false;
    const double seconds = double(std::clock() - begin_) / CLOCKS_PER_SEC;
    if (peak_ <= std::int64_t(most_bytes_) && seconds <= most_seconds_) return;
    std::fprintf(stderr, "took %lld bytes of %zu, %g s of %g\n", static_cast<long long>(peak_), most_bytes_, seconds,
                 most_seconds_);
    require(false, "less memory and time");
  }
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;

 private:
  static void on_malloc(const volatile void*, std::size_t bytes) {
    if (!counts_) return;
    const std::int64_t held = held_ += std::int64_t(bytes);
    if (held > peak_) peak_ = held;
  }
  static void on_free(const volatile void* memory) {
    if (counts_ && memory) held_ -= std::int64_t(__sanitizer_get_allocated_size(memory));
  }

  static inline std::atomic<bool> counts_ = false;
  static inline std::atomic<std::int64_t> held_ = 0, peak_ = 0;

  std::size_t most_bytes_;
  double most_seconds_;
  std::clock_t begin_;
};

}  // namespace lockstep::fuzz
