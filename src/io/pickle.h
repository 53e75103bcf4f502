// A restricted pickle: the opcodes that Python writes with protocol 2 to 5. Nothing is executed: a call of an allowed
// name stays a value that says what would have been called, and whatever else Python would make is an object of which
// only the type is known. Pure functions of bytes. (Python's Lib/pickletools.py describes the opcodes.)
#pragma once

#include <bit>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::pickle {

// What is built of a pickle takes more memory than its text; these bound by how much. A tensor takes about 200 bytes
// and 12 values.
inline constexpr std::uint64_t kMaxBytes = 64 << 20;
inline constexpr std::size_t kMaxValues = 1 << 22;
inline constexpr std::size_t kMaxNameBytes = 1 << 10, kMaxNamesBytes = 1 << 20;  // of "module.name", of one and of all

enum class Kind : std::uint8_t {
  none,
  boolean,
  integer,
  real,
  text,
  tuple,
  list,
  dict,
  global,
  persistent,
  call,
  object
};

inline constexpr std::int64_t kOtherName = -1;

/// Items are positions in Pickle::values; they may lie in each other's circles.
struct Value {
  Kind kind = Kind::none;
  std::uint32_t at = 0;  ///< Byte of the pickle.
  /// Of a boolean and an integer. Of a global, and of the one that a call calls, its place in `allowed`, or kOtherName.
  std::int64_t integer = 0;
  std::string_view text = {};  ///< Of a text; of a global "torch.FloatStorage"; of an object its type.
  /// Of a tuple and a list the elements; of a dict key, value, key, value, ...; of a call the tuple of its arguments (a
  /// tuple may be that of many calls, so it is not copied); of a persistent value its name.
  std::vector<std::uint32_t> items = {};

  double real() const { return std::bit_cast<double>(integer); }
};

struct Pickle {
  std::deque<Value> values;
  std::uint32_t root = 0;
  std::set<std::string, std::less<>> names;  ///< What the texts of globals and objects are views of.
};

/// `bytes`, which begin at byte `begin` of the file, outlive the result. `allowed` are the names "module.name" whose
/// calls are of interest. Throws FormatError(file, ...).
Pickle parse(const std::string& file, std::string_view bytes, std::uint64_t begin,
             const std::vector<std::string_view>& allowed);

}  // namespace lockstep::pickle
