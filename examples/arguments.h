// The command line of the examples.
#pragma once

#include <lockstep/core/error.h>
#include <lockstep/runtime/simulation.h>

#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

/// Throws InvalidArgument with the usage unless the text is a whole number.
template <class T>
T whole_number(std::string_view text, const std::string& usage) {
  T number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) throw lockstep::InvalidArgument(usage);
  return number;
}

/// For programs that take `--simulate N`: simulated GPUs, or nullopt without arguments. Throws InvalidArgument with the
/// usage for anything else.
inline std::optional<lockstep::SimulatedDevices> simulated_if_asked(int argc, char** argv) {
  if (argc <= 1) return std::nullopt;
  const std::string usage = "usage: " + std::filesystem::path(argv[0]).filename().string() + " [--simulate N]";
  if (argc != 3 || std::string_view(argv[1]) != "--simulate") throw lockstep::InvalidArgument(usage);
  return std::optional<lockstep::SimulatedDevices>(
      std::in_place, lockstep::SimulationOptions{.count = whole_number<int>(argv[2], usage)});
}

/// The arguments of a program: pairs of a name and a value, such as `--data PATH`, in any order.
class Arguments {
 public:
  /// `known` maps each allowed name to the name of its value in the usage. Throws InvalidArgument with the usage for
  /// any other name.
  Arguments(int argc, char** argv, const std::map<std::string, std::string>& known) {
    usage_ = "usage: " + std::filesystem::path(argv[0]).filename().string();
    for (const auto& [name, value] : known) usage_ += " [" + name + ' ' + value + ']';
    for (int i = 1; i < argc; i += 2) {
      if (!known.contains(argv[i]) || i + 1 == argc) throw lockstep::InvalidArgument(usage_);
      values_[argv[i]] = argv[i + 1];
    }
  }

  bool has(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& name, const std::string& otherwise = {}) const {
    return has(name) ? values_.at(name) : otherwise;
  }
  std::int64_t number(const std::string& name, std::int64_t otherwise) const {
    return has(name) ? whole_number<std::int64_t>(values_.at(name), usage_) : otherwise;
  }
  /// Simulated GPUs if `--simulate N` was given.
  std::optional<lockstep::SimulatedDevices> simulated() const {
    if (!has("--simulate")) return std::nullopt;
    return std::optional<lockstep::SimulatedDevices>(
        std::in_place, lockstep::SimulationOptions{.count = int(number("--simulate", 1))});
  }

 private:
  std::string usage_;
  std::map<std::string, std::string> values_;
};
