// How much memory a part of a test takes at most.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace lockstep::testing {

/// Counts resident memory since it was made, pages of files that are mapped included; 0 where Linux does not tell.
class PeakMemory {
 public:
  PeakMemory() {
    std::ofstream("/proc/self/clear_refs") << 5;  // the peak is that of now
    before_ = kilobytes("VmRSS:");
  }
  std::int64_t taken_bytes() const { return 1024 * (kilobytes("VmHWM:") - before_); }

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
