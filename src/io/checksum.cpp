// All of xxHash is compiled in here, from its header: programs that link Lockstep need no library of it.
#define XXH_INLINE_ALL
#include "io/checksum.h"

#include <xxhash.h>

#include <charconv>
#include <new>

namespace lockstep {

struct Checksum::State {
  XXH3_state_t xxh3;
};

void Checksum::Free::operator()(State* state) const noexcept { delete state; }

Checksum::Checksum() : state_(new State) { XXH3_64bits_reset(&state_->xxh3); }

void Checksum::add(const void* data, std::size_t bytes) { XXH3_64bits_update(&state_->xxh3, data, bytes); }

std::string Checksum::digits() const {
  char digits[kDigits];
  const auto [end, error] = std::to_chars(digits, digits + kDigits, XXH3_64bits_digest(&state_->xxh3), 16);
  const auto count = std::size_t(end - digits);
  return std::string(kDigits - count, '0').append(digits, count);
}

}  // namespace lockstep
