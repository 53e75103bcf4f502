// exp and erf of floats without branches or calls: a loop over them becomes vector instructions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <lockstep/core/dtype.h>

namespace lockstep {

/// exp(x) for x <= 0, within 2 units in the last place; exp(-87), which is next to nothing, below that and for NaN. The
/// reduction and the polynomial are those of Cephes' expf.
inline float exp_of_negative(float x) {
  // Of negative floats the greater bits are the lesser number. (A comparison of floats may trap: it is not hoisted.)
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), least = std::bit_cast<std::uint32_t>(-87.0f);
  const float t = std::bit_cast<float>(bits > least ? least : bits);
  const float shifted = t * 1.44269504088896341f + 12582912.0f;  // 1.5 2^23: rounds to whole numbers
  const float n = shifted - 12582912.0f;
  const float r = t - n * 0.693359375f + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * std::bit_cast<float>((std::bit_cast<std::int32_t>(shifted) - 0x4B400000 + 127) << 23);
}

/// exp(-x^2) and erf(x), within 2e-7 (Abramowitz, Stegun: Handbook of Mathematical Functions, 7.1.26).
struct ErfAndSlope {
  float erf, slope;
};
inline ErfAndSlope erf_and_slope(float x) {
  const float magnitude = std::abs(x), t = 1.0f / (1.0f + 0.3275911f * magnitude), slope = exp_of_negative(-x * x);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  return {std::copysign(1.0f - p * t * slope, x), slope};
}

}  // namespace lockstep
