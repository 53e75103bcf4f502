// exp and erf of floats without branches or calls: a loop over them becomes vector instructions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <lockstep/core/dtype.h>

#include "core/exp_polynomial.h"

namespace lockstep {

/// exp(x) for x <= 0 (exp_by_polynomial); exp(-87), which is next to nothing, below that and for NaN.
inline float exp_of_negative(float x) {
  // Of negative floats the greater bits are the lesser number. (A comparison of floats may trap: it is not hoisted.)
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), least = std::bit_cast<std::uint32_t>(-87.0f);
  return exp_by_polynomial<float, std::int32_t>(std::bit_cast<float>(bits > least ? least : bits));
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
