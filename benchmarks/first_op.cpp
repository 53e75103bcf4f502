// Runs one operation and exits: `run` measures this process's time and memory, and the size of the program.
#include <lockstep/lockstep.h>

#include <cstdio>

#include "harness.h"

int main() {
  const bool is_right = (lockstep::ones({}) + lockstep::ones({})).item<float>() == 2;
  std::printf("{\"name\": \"first_op\", \"peak_mb\": %.1f}\n", bench::memory_mb("VmHWM"));
  return is_right ? 0 : 1;
}
