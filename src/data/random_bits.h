// Random bits for orders of samples, which are the same with every standard library, unlike std::shuffle and the
// distributions of <random>.
#pragma once

#include <cstdint>
#include <random>

namespace lockstep::data {

/// Combines two numbers by the output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t z = a + (b + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

class RandomBits {
 public:
  RandomBits(std::uint64_t seed, std::int64_t epoch) : engine_(mix(seed, std::uint64_t(epoch))) {}

  /// Uniform in [0, bound), bound > 0. Rejects draws below 2^64 mod bound, which would make some results more likely.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t incomplete = (0 - bound) % bound;  // 2^64 mod bound
    std::uint64_t bits = engine_();
    while (bits < incomplete) bits = engine_();
    return bits % bound;
  }

  /// Uniform in [0, 1), in steps of 2^-53.
  double unit() { return double(engine_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace lockstep::data
