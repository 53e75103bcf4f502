// Runs a case: trains its module as the case says, or the truth: on one CPU, with the whole batch, and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contract/features.h"

namespace lockstep::contract {

/// Something that a run ends with, or that was seen on the way.
struct Entry {
  /// What is compared with the truth.
  enum class Of : std::uint8_t {
    all,      ///< Every process has it.
    rows,     ///< Each process has some of the rows, in order.
    weighted  ///< Each process has a part of a sum: weight times values.
  };
  std::string name;
  std::vector<double> values;
  Of of = Of::all;
  double weight = 1;
  bool is_16_bit = false;  ///< Computed so, whatever the case says.
};
using Result = std::vector<Entry>;

/// So many processes of so many devices each.
struct Layout {
  int processes, devices;
};
Layout layout_of(const Case& given);

Result truth_of(const Case& given);
/// What must not matter.
struct Variant {
  std::uint64_t delays = 0;  ///< Is added to the seed of the simulated devices' delays.
  bool eager = false;        ///< As many steps, none of them captured.
};
/// One for each process. Throws std::runtime_error with what the processes threw.
std::vector<Result> run(const Case& given, Layout layout, const Variant& variant = {});

}  // namespace lockstep::contract
