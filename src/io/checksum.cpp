// xxHash is compiled in from its header, so that programs that link Lockstep do not need its library.
#define XXH_INLINE_ALL
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Without this, GCC fails at low optimization: it cannot inline functions that are marked always_inline.
#define XXH_NO_INLINE_HINTS 1
#endif
#include "io/checksum.h"

#include <xxhash.h>

#include <charconv>

namespace lockstep {

struct Checksum::State {
  XXH3_state_t xxh3;
};

void Checksum::Free::operator()(State* state) const noexcept { delete state; }

Checksum::Checksum() : state_(new State) { XXH3_64bits_reset(&state_->xxh3); }

void Checksum::add(const void* data, std::size_t bytes) { XXH3_64bits_update(&state_->xxh3, data, bytes); }

std::uint64_t Checksum::value() const { return XXH3_64bits_digest(&state_->xxh3); }

std::string checksum_digits(std::uint64_t value) {
  char digits[kChecksumDigits];
  const auto [end, error] = std::to_chars(digits, digits + kChecksumDigits, value, 16);
  const auto count = std::size_t(end - digits);
  return std::string(kChecksumDigits - count, '0').append(digits, count);
}

}  // namespace lockstep
