// The peak memory of a part of a test.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace lockstep::testing {

/// Measures resident memory from its construction on, including mapped pages of files. Returns 0 if Linux does not
/// report it, and under sanitizers, which allocate memory themselves.
class PeakMemory {
 public:
  PeakMemory() {
    std::ofstream("/proc/self/clear_refs") << 5;  // resets the peak to the current value
    before_ = kilobytes("VmRSS:");
  }
  std::int64_t taken_bytes() const {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#else
    return 1024 * (kilobytes("VmHWM:") - before_);
#endif
  }

 private:
  static std::int64_t kilobytes(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
      if (word == name) {
        std::int64_t found = 0;
        status >> found;
        return found;
      }
    return 0;
  }

  std::int64_t before_ = 0;
};

}  // namespace lockstep::testing
