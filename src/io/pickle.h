// A restricted unpickler for the opcodes of Python's protocols 2 to 5. Nothing is executed: a call of an allowed name
// becomes a value that records the call, and any other object keeps only its type. Pure functions of bytes. (Python's
// Lib/pickletools.py describes the opcodes.)
#pragma once

#include <bit>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::pickle {

// Unpickled values take more memory than the pickle; these limits bound it. A tensor takes about 200 bytes and 12
// values.
inline constexpr std::uint64_t kMaxBytes = 64 << 20;
inline constexpr std::size_t kMaxValues = 1 << 22;
inline constexpr std::size_t kMaxNameBytes = 1 << 10, kMaxNamesBytes = 1 << 20;  // of one "module.name", of all names

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

/// An unpickled value. It refers to other values by their positions in Pickle::values, so cycles are possible.
struct Value {
  Kind kind = Kind::none;
  std::uint32_t at = 0;  ///< Position in the pickle, in bytes.
  /// The value of a boolean or integer; for a global or a call, the position of the name in `allowed`, or kOtherName.
  std::int64_t integer = 0;
  std::string_view text = {};  ///< A text; for a global its name, "torch.FloatStorage"; for an object its type.
  /// Elements of a tuple or list; key, value, key, value, ... of a dict; the argument tuple of a call (not copied,
  /// since many calls may share a tuple); the id of a persistent value.
  std::vector<std::uint32_t> items = {};

  double real() const { return std::bit_cast<double>(integer); }
};

struct Pickle {
  std::deque<Value> values;
  std::uint32_t root = 0;
  std::set<std::string, std::less<>> names;  ///< Owns the names that the texts of globals and objects refer to.
};

/// Parses `bytes`, which are at byte `begin` of the file and must outlive the result. `allowed`: names "module.name"
/// whose calls are recorded. Throws FormatError(file, ...).
Pickle parse(const std::string& file, std::string_view bytes, std::uint64_t begin,
             const std::vector<std::string_view>& allowed);

}  // namespace lockstep::pickle
