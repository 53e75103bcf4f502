// Philox4x32-10, the counter-based generator behind all random numbers, for the host and for GPUs.
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Pure functions.
#pragma once

#include <cstdint>

#include <lockstep/core/dtype.h>
#include <lockstep/tensor/random.h>

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

/// The start of a sequence that `point` determines. It is independent of the sequences of all other points, and of the
/// numbers that are drawn at `point` itself.
inline GeneratorState sequence_of(const GeneratorState& point) {
  const PhiloxBlock block = philox(philox_counter(point.stream, point.offset), philox_key(point.seed));
  return {.seed = block.wide(0), .stream = block.wide(1)};
}

/// A word as a number in [0, 1), from its upper 24 bits: a float holds no more with uniform spacing.
LOCKSTEP_HD inline float to_uniform(std::uint32_t word) { return float(std::int32_t(word >> 8)) * 0x1p-24f; }
/// A 64-bit word as a number in [0, 1), from its upper 53 bits.
LOCKSTEP_HD inline double to_uniform(std::uint64_t word) { return double(std::int64_t(word >> 11)) * 0x1p-53; }

/// floor(word * range / 2^64): below `range`, each value with probability 1 / range to within 2^-64.
LOCKSTEP_HD inline std::uint64_t to_range(std::uint64_t word, std::uint64_t range) {
  const std::uint64_t low = 0xffffffffu;
  const std::uint64_t w0 = word & low, w1 = word >> 32, r0 = range & low, r1 = range >> 32;
  const std::uint64_t middle = w1 * r0 + (w0 * r0 >> 32);  // cannot overflow: (2^32 - 1)^2 + 2^32 - 1 < 2^64
  return w1 * r1 + (middle >> 32) + ((w0 * r1 + (middle & low)) >> 32);
}

}  // namespace lockstep
