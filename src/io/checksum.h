// Checksum: XXH3, 64 bits, over bytes added piece by piece. One thread at a time.
// (xxHash's specification: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep {

inline constexpr std::size_t kChecksumDigits = 16;

class Checksum {
 public:
  Checksum();
  void add(const void* data, std::size_t bytes);
  /// Returns the checksum of all bytes so far.
  std::uint64_t value() const;

 private:
  struct State;
  struct Free {
    void operator()(State* state) const noexcept;
  };
  std::unique_ptr<State, Free> state_;
};

/// Formats as sixteen lower-case hexadecimal digits.
std::string checksum_digits(std::uint64_t value);

}  // namespace lockstep
