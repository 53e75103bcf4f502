// What the examples are told on the command line.
#pragma once

#include <lockstep/core/error.h>
#include <lockstep/runtime/simulation.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

/// Throws InvalidArgument with the usage where the text is not a whole number.
template <class T>
T whole_number(std::string_view text, const std::string& usage) {
  T number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) throw lockstep::InvalidArgument(usage);
  return number;
}

/// For programs that take `--simulate N`: simulated GPUs, or none where nothing was said. Throws InvalidArgument with
/// the usage for anything else.
inline std::optional<lockstep::SimulatedDevices> simulated_if_asked(int argc, char** argv) {
  if (argc <= 1) return std::nullopt;
  const std::string usage = "usage: " + std::filesystem::path(argv[0]).filename().string() + " [--simulate N]";
  if (argc != 3 || std::string_view(argv[1]) != "--simulate") throw lockstep::InvalidArgument(usage);
  return std::optional<lockstep::SimulatedDevices>(
      std::in_place, lockstep::SimulationOptions{.count = whole_number<int>(argv[2], usage)});
}
