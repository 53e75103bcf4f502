// Philox4x32-10, the counter-based generator behind all random numbers, for the host and for GPUs.
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Pure functions.
#pragma once

#include <cstdint>

#include <lockstep/core/float16.h>

namespace lockstep {

/// Four 32-bit words: a counter, or the random numbers made from it.
struct PhiloxBlock {
  std::uint32_t words[4];

  /// Words 2i (lower half) and 2i + 1 (upper half) as one number.
  LOCKSTEP_HD std::uint64_t wide(int i) const {
    return std::uint64_t(words[2 * i]) | std::uint64_t(words[2 * i + 1]) << 32;
  }
};

struct PhiloxKey {
  std::uint32_t words[2];

  LOCKSTEP_HD PhiloxKey next() const { return {{words[0] + 0x9E3779B9u, words[1] + 0xBB67AE85u}}; }
};

inline constexpr int kPhiloxRounds = 10;

[[gnu::always_inline]] LOCKSTEP_HD inline PhiloxBlock philox_round(const PhiloxBlock& x, const PhiloxKey& key) {
  const std::uint32_t a = 0xD2511F53u, b = 0xCD9E8D57u;
  return {{std::uint32_t(std::uint64_t(b) * x.words[2] >> 32) ^ x.words[1] ^ key.words[0], b * x.words[2],
           std::uint32_t(std::uint64_t(a) * x.words[0] >> 32) ^ x.words[3] ^ key.words[1], a * x.words[0]}};
}

/// The four random words that Philox makes from a counter and a key.
LOCKSTEP_HD inline PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round, key = key.next()) counter = philox_round(counter, key);
  return counter;
}

/// philox(counter, key) gives block `index` of stream `stream` under `seed`. Key and counter are stored low word first.
LOCKSTEP_HD inline PhiloxKey philox_key(std::uint64_t seed) {
  return {{std::uint32_t(seed), std::uint32_t(seed >> 32)}};
}
LOCKSTEP_HD inline PhiloxBlock philox_counter(std::uint64_t stream, std::uint64_t index) {
  return {{std::uint32_t(index), std::uint32_t(index >> 32), std::uint32_t(stream), std::uint32_t(stream >> 32)}};
}

}  // namespace lockstep
