// A restricted pickle: the opcodes that torch.save writes for tensors, dicts, lists, tuples, numbers and texts. Nothing
// is executed: a call stays a value that says what would have been called. Any other opcode, and any name that is not
// allowed, is refused. Pure functions of bytes. (Python's Lib/pickletools.py describes the opcodes.)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::pickle {

// What is built of a pickle takes more memory than its text; these bound by how much. A tensor takes about 200 bytes
// and 12 values.
inline constexpr std::uint64_t kMaxBytes = 64 << 20;
inline constexpr std::size_t kMaxValues = 1 << 22;

enum class Kind : std::uint8_t { none, boolean, integer, real, text, tuple, list, dict, global, persistent, call };

/// Items are positions in Pickle::values; they may lie in each other's circles.
struct Value {
  Kind kind = Kind::none;
  std::int64_t integer = 0;      ///< Of a boolean and an integer. Of a call, what is called: as in `allowed`.
  double real = 0;               ///< Of a real.
  std::string_view text = {};    ///< Of a text, and of a global: "torch.FloatStorage".
  std::uint64_t noticed_at = 0;  ///< Byte of the file.
  /// Of a tuple and a list the elements; of a dict key, value, key, value, ...; of a call its arguments; of a
  /// persistent value its name.
  std::vector<std::uint32_t> items = {};
};

struct Pickle {
  std::vector<Value> values;
  std::uint32_t root = 0;
};

/// `bytes`, which begin at byte `begin` of the file, outlive the result. `allowed` are the names "module.name" that may
/// appear. Throws FormatError(file, ...).
Pickle parse(const std::string& file, std::string_view bytes, std::uint64_t begin,
             const std::vector<std::string_view>& allowed);

}  // namespace lockstep::pickle
