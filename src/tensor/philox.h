// Sequences of random numbers made of Philox blocks (core/philox.h), and numbers made of their words. Pure functions.
#pragma once

#include <cstdint>

#include <lockstep/core/dtype.h>
#include <lockstep/tensor/random.h>

#include "core/philox.h"

namespace lockstep {

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
