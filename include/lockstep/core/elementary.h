// Elementary functions of numbers, for kernels: in the namespace of the function object write `using elementary::exp;`
// instead of `using std::exp;`. On a GPU they are CUDA's functions. On the host, the compiler vectorizes loops over
// them. exp and tanh of floats are branch-free functions of our own; the others are the C library's vector functions
// (glibc's libmvec, within 4 units in the last place), or, without libmvec, those of `cmath`.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <lockstep/core/float16.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 35)
#define LOCKSTEP_VECTOR_MATH 1
#endif
#endif

namespace lockstep::elementary {

#ifdef LOCKSTEP_VECTOR_MATH
// Declares the C library's functions again, under names of our own and with the simd attribute, which says that a
// function has vector variants. (The library's header sets the attribute only under -ffast-math.)
namespace detail {
#define LOCKSTEP_VECTOR_FUNCTION [[gnu::simd("notinbranch"), gnu::const]]
extern "C" {
// clang-format off
#define LOCKSTEP_ELEMENTARY(name)                                                           \
  LOCKSTEP_VECTOR_FUNCTION float lockstep_##name##_float(float) noexcept __asm__(#name "f"); \
  LOCKSTEP_VECTOR_FUNCTION double lockstep_##name##_double(double) noexcept __asm__(#name);
LOCKSTEP_ELEMENTARY(exp) LOCKSTEP_ELEMENTARY(exp2) LOCKSTEP_ELEMENTARY(expm1) LOCKSTEP_ELEMENTARY(log)
LOCKSTEP_ELEMENTARY(log1p) LOCKSTEP_ELEMENTARY(log2) LOCKSTEP_ELEMENTARY(log10) LOCKSTEP_ELEMENTARY(sin)
LOCKSTEP_ELEMENTARY(cos) LOCKSTEP_ELEMENTARY(tan) LOCKSTEP_ELEMENTARY(asin) LOCKSTEP_ELEMENTARY(acos)
LOCKSTEP_ELEMENTARY(atan) LOCKSTEP_ELEMENTARY(sinh) LOCKSTEP_ELEMENTARY(cosh) LOCKSTEP_ELEMENTARY(tanh)
LOCKSTEP_ELEMENTARY(erf) LOCKSTEP_ELEMENTARY(erfc)
LOCKSTEP_VECTOR_FUNCTION float lockstep_pow_float(float, float) noexcept __asm__("powf");
LOCKSTEP_VECTOR_FUNCTION double lockstep_pow_double(double, double) noexcept __asm__("pow");
// clang-format on
#undef LOCKSTEP_ELEMENTARY
#undef LOCKSTEP_VECTOR_FUNCTION
}
}  // namespace detail
#endif

// The function that LOCKSTEP_ELEMENTARY calls: a vector variant if there is one, else (as on a GPU) that of <cmath>.
#if defined(LOCKSTEP_VECTOR_MATH) && !defined(__CUDA_ARCH__)
#define LOCKSTEP_ELEMENTARY_OF(name, type) detail::lockstep_##name##_##type
#else
#define LOCKSTEP_ELEMENTARY_OF(name, type) std::name
#endif
#define LOCKSTEP_ELEMENTARY(name)                                                           \
  LOCKSTEP_HD inline float name(float x) { return LOCKSTEP_ELEMENTARY_OF(name, float)(x); } \
  LOCKSTEP_HD inline double name(double x) { return LOCKSTEP_ELEMENTARY_OF(name, double)(x); }

LOCKSTEP_ELEMENTARY(exp2)   ///< 2^x.
LOCKSTEP_ELEMENTARY(expm1)  ///< e^x - 1.
LOCKSTEP_ELEMENTARY(log)    ///< Natural logarithm.
LOCKSTEP_ELEMENTARY(log1p)  ///< log(1 + x).
LOCKSTEP_ELEMENTARY(log2)   ///< Logarithm to base 2.
LOCKSTEP_ELEMENTARY(log10)  ///< Logarithm to base 10.
LOCKSTEP_ELEMENTARY(sin)    ///< The argument is in radians.
LOCKSTEP_ELEMENTARY(cos)    ///< The argument is in radians.
LOCKSTEP_ELEMENTARY(tan)    ///< The argument is in radians.
LOCKSTEP_ELEMENTARY(asin)   ///< The result is in radians.
LOCKSTEP_ELEMENTARY(acos)   ///< The result is in radians.
LOCKSTEP_ELEMENTARY(atan)   ///< The result is in radians.
LOCKSTEP_ELEMENTARY(sinh)   ///< Hyperbolic sine.
LOCKSTEP_ELEMENTARY(cosh)   ///< Hyperbolic cosine.
LOCKSTEP_ELEMENTARY(erf)    ///< Error function.
LOCKSTEP_ELEMENTARY(erfc)   ///< 1 - erf(x).
#undef LOCKSTEP_ELEMENTARY

/// e^x, within 2 units in the last place. The reduction x = n log 2 + r and the polynomial of r are those of Cephes
/// (Moshier, netlib.org/cephes, expf.c).
LOCKSTEP_HD inline float exp(float x) {
#if defined(__CUDA_ARCH__) || defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__)
  return std::exp(x);  // -ffast-math would undo the rounding below
#else
  constexpr float kShifter = 12582912;                            // 1.5 2^23: adding it rounds to whole numbers
  const float t = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;  // outside, the result is 0 or infinity; NaN stays
  const float shifted = t * 1.44269504088896341f + kShifter;
  const float n = shifted - kShifter;
  const float r = t - n * 0.693359375f + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // Multiplies by 2^n in two factors, each of which is a normal number.
  const std::int32_t power = std::bit_cast<std::int32_t>(shifted) - 0x4B400000, half = power >> 1;
  const auto power_of_two = [](std::int32_t k) { return std::bit_cast<float>((k + 127) << 23); };
  return p * power_of_two(half) * power_of_two(power - half);
#endif
}
/// tanh(x), within 6 units in the last place. A quotient of polynomials (as in Eigen, generic_fast_tanh_float); beyond
/// 7.9 the result rounds to 1.
LOCKSTEP_HD inline float tanh(float x) {
#ifdef __CUDA_ARCH__
  return std::tanh(x);
#else
  constexpr float kMax = 7.90531110763549805f;
  const float t = x < -kMax ? -kMax : x > kMax ? kMax : x, s = t * t;
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
  return t * (p / q);
#endif
}
/// e^x.
LOCKSTEP_HD inline double exp(double x) { return LOCKSTEP_ELEMENTARY_OF(exp, double)(x); }
/// Hyperbolic tangent.
LOCKSTEP_HD inline double tanh(double x) { return LOCKSTEP_ELEMENTARY_OF(tanh, double)(x); }
/// 1 / (1 + e^-x).
template <class T>
LOCKSTEP_HD T sigmoid(T x) {
  return 1 / (1 + elementary::exp(-x));
}
/// x^y.
LOCKSTEP_HD inline float pow(float x, float y) { return LOCKSTEP_ELEMENTARY_OF(pow, float)(x, y); }
/// x^y.
LOCKSTEP_HD inline double pow(double x, double y) { return LOCKSTEP_ELEMENTARY_OF(pow, double)(x, y); }
#undef LOCKSTEP_ELEMENTARY_OF

}  // namespace lockstep::elementary
