// Normal random numbers by the method of Box and Muller ("A note on the generation of random normal deviates", 1958),
// with a logarithm, sine and cosine of its own, for the host and for GPUs. The results are bit-identical everywhere:
// every operation is exactly rounded by IEEE 754, every fused multiply-add is explicit, and no product is added in a
// way that a compiler could fuse. Accurate to about 1e-6 (float) and 1e-14 (double). Pure functions.
#pragma once

#include <math.h>  // functions in the global namespace, which GPU code has too

#include <bit>
#include <cstdint>

#include <lockstep/core/dtype.h>

namespace lockstep {

template <class T>
struct NormalPair {
  T first, second;
};

namespace normal_detail {

LOCKSTEP_HD inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
LOCKSTEP_HD inline double fused(double a, double b, double c) { return fma(a, b, c); }

/// c0 + c1 x + c2 x^2 + ...
template <class T>
LOCKSTEP_HD T polynomial(T, T c0) {
  return c0;
}
template <class T, class... Rest>
LOCKSTEP_HD T polynomial(T x, T c0, Rest... rest) {
  return fused(polynomial(x, rest...), x, c0);
}

// Coefficients are Chebyshev fits: of (log(1+f) - f) / f^2 over sqrt(1/2) <= 1+f <= sqrt(2); of
// (log((1+s)/(1-s)) - 2s) / s^3 over the same range of (1+s)/(1-s); of (sin t - t) / t^3 and (cos t - 1) / t^2, as
// polynomials in t^2, over |t| <= pi/4.

/// The natural logarithm of a positive, normal x. x is reduced to a mantissa between sqrt(1/2) and sqrt(2).
LOCKSTEP_HD inline float log_of(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::int32_t exponent = std::int32_t(bits - 0x3f3504f3u) >> 23;
  const float f = std::bit_cast<float>(bits - (std::uint32_t(exponent) << 23)) - 1.0f;
  const float p = polynomial(f, -0x1.fffffep-2f, 0x1.555554p-2f, -0x1.00020cp-2f, 0x1.99a012p-3f, -0x1.548382p-3f,
                             0x1.22ea5ap-3f, -0x1.0cda32p-3f, 0x1.048f72p-3f, -0x1.3a4ff6p-4f);
  return fused(float(exponent), 0x1.62e430p-1f, fused(f * f, p, f));
}

LOCKSTEP_HD inline double log_of(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const std::int64_t exponent = std::int64_t(bits - 0x3fe6a09e667f3bcdu) >> 52;
  const double f = std::bit_cast<double>(bits - (std::uint64_t(exponent) << 52)) - 1.0;
  const double s = f / (2.0 + f);
  const double w = s * s;
  const double p = polynomial(w, 0x1.5555555555558p-1, 0x1.99999999952e2p-2, 0x1.2492492df148dp-2, 0x1.c71c62e5800a1p-3,
                              0x1.7462b4ab2ef6bp-3, 0x1.39fe606542ddep-3, 0x1.2b584aae78a57p-3);
  return fused(double(std::int32_t(exponent)), 0x1.62e42fefa39efp-1, fused(s * w, p, 2.0 * s));
}

LOCKSTEP_HD inline float sin_of(float t, float square) {
  return fused(t * square, polynomial(square, -0x1.555552p-3f, 0x1.110c28p-7f, -0x1.9ac9b0p-13f), t);
}
LOCKSTEP_HD inline float cos_of(float square) {
  return polynomial(square, 1.0f, -0x1p-1f, 0x1.55554cp-5f, -0x1.6c0e08p-10f, 0x1.9a6f2cp-16f);
}
LOCKSTEP_HD inline double sin_of(double t, double square) {
  return fused(t * square,
               polynomial(square, -0x1.5555555555555p-3, 0x1.1111111110bb2p-7, -0x1.a01a019e83aaep-13,
                          0x1.71de37968a100p-19, -0x1.ae600b02b6262p-26, 0x1.5e0b19f8b1451p-33),
               t);
}
LOCKSTEP_HD inline double cos_of(double square) {
  return polynomial(square, 1.0, -0x1p-1, 0x1.5555555555551p-5, -0x1.6c16c16c15d79p-10, 0x1.a01a019de131fp-16,
                    -0x1.27e4f8e4a2e74p-22, 0x1.1eea7f259b344p-29, -0x1.8ff9d439a204ap-37);
}

/// (radius cos a, radius sin a) for the angle a = t + quadrant pi/2, without a branch.
template <class Bits, class T>
[[gnu::always_inline]] LOCKSTEP_HD inline NormalPair<T> turned(T radius, T t, Bits quadrant) {
  constexpr int kSign = 8 * sizeof(Bits) - 2;  // shifts bit 1 to the sign bit
  const T square = t * t;
  const Bits c = std::bit_cast<Bits>(cos_of(square));
  const Bits s = std::bit_cast<Bits>(sin_of(t, square));
  const Bits swap = (c ^ s) & (Bits(0) - (quadrant & 1));
  return {radius * std::bit_cast<T>(c ^ swap ^ ((quadrant + 1) & 2) << kSign),
          radius * std::bit_cast<T>(s ^ swap ^ (quadrant & 2) << kSign)};
}

}  // namespace normal_detail

/// Two independent normal numbers from two random words: the first word gives the radius, from a number in (0, 1],
/// the second the angle, as a part of the whole circle.
LOCKSTEP_HD inline NormalPair<float> to_normal(std::uint32_t a, std::uint32_t b) {
  using namespace normal_detail;
  const float u = fused(float(std::int32_t(a >> 1)), 0x1p-31f, 0x1p-32f);
  const std::uint32_t quadrant = (b + 0x20000000u) >> 30;
  const float t = float(std::int32_t(b - (quadrant << 30))) * 0x1.921fb6p-30f;  // 2 pi / 2^32
  return turned(sqrtf(-2.0f * log_of(u)), t, quadrant);
}

LOCKSTEP_HD inline NormalPair<double> to_normal(std::uint64_t a, std::uint64_t b) {
  using namespace normal_detail;
  const double u = fused(double(std::int64_t(a >> 11)), 0x1p-53, 0x1p-54);
  const std::uint64_t quadrant = (b + 0x2000000000000000u) >> 62;
  const double t = double(std::int64_t(b - (quadrant << 62))) * 0x1.921fb54442d18p-62;  // 2 pi / 2^64
  return turned(::sqrt(-2.0 * log_of(u)), t, quadrant);
}

}  // namespace lockstep
