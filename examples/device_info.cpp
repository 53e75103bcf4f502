// device_info: a table of all devices with their memory, in the manner of nvidia-smi.
//   device_info                what this machine has, or what LOCKSTEP_DEVICES says
//   device_info --simulate 4   four simulated GPUs
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>

#include <charconv>
#include <exception>
#include <iostream>
#include <optional>
#include <string_view>

namespace {

// The count after --simulate; nothing if it is not one.
std::optional<int> parse_count(std::string_view text) {
  int count = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return count;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 1) {
    lockstep::print_devices(std::cout);
    return 0;
  }
  const bool simulate = argc == 3 && std::string_view(argv[1]) == "--simulate";
  const std::optional<int> count = simulate ? parse_count(argv[2]) : std::nullopt;
  if (!count) {
    std::cerr << "usage: device_info [--simulate N]\n";
    return 2;
  }
  const lockstep::SimulatedDevices devices({.count = *count});
  lockstep::print_devices(std::cout);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "device_info: " << error.what() << '\n';
  return 1;
}
