// The sigmoid and the tanh of gates. In float they are polynomials without branches, which compilers turn into vector
// instructions; elsewhere the library's functions. Both are exact to a few units in the last place.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <lockstep/core/float16.h>

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

/// e^x as in Cephes (Moshier, netlib.org/cephes, expf.c): x = n log 2 + r, and a polynomial of r. Beyond +-87 it is
/// e^+-87.
inline float exp_by_polynomial(float x) {
  x = clamped(x, 87.0f);
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const float rounded = x * 1.44269504088896341f + kRound;
  const float n = rounded - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(rounded) - std::bit_cast<std::int32_t>(kRound);
  const float power = std::bit_cast<float>((exponent + 127) << 23);
  return (p * r * r + r + 1.0f) * power;
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
  if constexpr (std::is_same_v<T, float>) return 1.0f / (1.0f + exp_by_polynomial(-x));
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
