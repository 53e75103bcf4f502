// The sigmoid and the tanh of gates. In float they are polynomials without branches, which compilers turn into vector
// instructions; elsewhere the library's functions. Both are exact to a few units in the last place.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <lockstep/core/float16.h>

#include "core/exp_polynomial.h"

namespace lockstep {

/// x, or +-limit beyond that; NaN stays NaN. Compares whole numbers: a comparison of floats could trap, and compilers
/// keep it a branch.
inline float clamped(float x, float limit) {
  constexpr std::int32_t kInfinity = 0x7f800000;
  const auto bits = std::bit_cast<std::int32_t>(x), most = std::bit_cast<std::int32_t>(limit);
  const std::int32_t size = bits & 0x7fffffff;
  const std::int32_t kept = (size > most) & (size <= kInfinity) ? most : size;
  return std::bit_cast<float>(kept | (bits ^ size));
}

/// A quotient of polynomials (as in Eigen, generic_fast_tanh_float); 1 within rounding beyond 7.9.
inline float tanh_by_polynomial(float x) {
  x = clamped(x, 7.90531110763549805f);
  const float s = x * x;
  float p = -2.76076847742355e-16f;
  p = p * s + 2.00018790482477e-13f;
  p = p * s - 8.60467152213735e-11f;
  p = p * s + 5.12229709037114e-08f;
  p = p * s + 1.48572235717979e-05f;
  p = p * s + 6.37261928875436e-04f;
  p = p * s + 4.89352455891786e-03f;
  float q = 1.19825839466702e-06f;
  q = q * s + 1.18534705686654e-04f;
  q = q * s + 2.26843463243900e-03f;
  q = q * s + 4.89352518554385e-03f;
  return x * p / q;
}

template <class T>
LOCKSTEP_HD T gate_sigmoid(T x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, float>)
    return 1.0f / (1.0f + exp_by_polynomial<float, std::int32_t>(clamped(-x, 87.0f)));
#endif
  return 1 / (1 + std::exp(-x));
}

template <class T>
LOCKSTEP_HD T gate_tanh(T x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, float>) return tanh_by_polynomial(x);
#endif
  return std::tanh(x);
}

}  // namespace lockstep
