// Runs a case: trains its module as the case says; or the truth, on one CPU with the whole batch and no other feature.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contract/features.h"

namespace lockstep::contract {

/// A result of a run, or a value that was recorded on the way.
struct Entry {
  /// The part of the truth's entry that a process has.
  enum class Of : std::uint8_t {
    all,      ///< Every process has all of it.
    rows,     ///< Each process has some of the rows, in order.
    weighted  ///< Each process has a part of a sum: weight times values.
  };
  std::string name;
  std::vector<double> values;
  Of of = Of::all;
  double weight = 1;
  bool is_16_bit = false;  ///< computed in 16 bits, whatever the case's dtype
};
using Result = std::vector<Entry>;

/// The number of processes, and of devices in each.
struct Layout {
  int processes, devices;
};
Layout layout_of(const Case& given);

Result truth_of(const Case& given);
/// Changes of a run that must not change its results.
struct Variant {
  std::uint64_t delays = 0;  ///< Added to the seed of the simulated devices' delays.
  bool eager = false;        ///< Runs the same number of steps without capturing any.
};
/// One result for each process. Throws std::runtime_error with the messages of the processes' exceptions.
std::vector<Result> run(const Case& given, Layout layout, const Variant& variant = {});

}  // namespace lockstep::contract
