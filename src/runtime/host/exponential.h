// exp over rows that lie densely in memory, in vector registers. Pure functions.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace lockstep::host {

using Floats = float __attribute__((vector_size(32)));
using Ints = std::int32_t __attribute__((vector_size(32)));
inline constexpr std::int64_t kFloats = 8;

/// exp(x) for each lane, within 2 units in the last place; 0 below -87, infinity above 88.3; NaN for NaN. The reduction
/// and the polynomial are those of Cephes' expf.
[[gnu::always_inline]] inline void exponential(Floats& x) {
  constexpr float kShifter = 12582912;  // 1.5 2^23: adding it rounds to whole numbers
  const Ints below = x<-87.0f, above = x> 88.3f;
  Floats t = below ? Floats{} - 87.0f : x;
  t = above ? Floats{} + 88.3f : t;
  const Floats shifted = t * 1.44269504088896341f + kShifter;
  const Floats n = shifted - kShifter;
  const Floats r = t - n * 0.693359375f + n * 2.12194440e-4f;
  Floats p = Floats{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  Ints bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits - 0x4B400000 + 127) << 23;
  Floats power;
  std::memcpy(&power, &bits, sizeof power);
  p *= power;
  p = below ? Floats{} : p;
  x = above ? Floats{} + INFINITY : p;
}

/// x[i] = exp(x[i] - shift); returns their sum, added in an order that depends on the count alone.
inline float exponentials(float* x, std::int64_t count, float shift) {
  Floats sum = {};
  std::int64_t i = 0;
  for (; i + kFloats <= count; i += kFloats) {
    Floats v;
    std::memcpy(&v, x + i, sizeof v);
    v -= shift;
    exponential(v);
    sum += v;
    std::memcpy(x + i, &v, sizeof v);
  }
  if (i < count) {
    Floats v = Floats{} - INFINITY;
    std::memcpy(&v, x + i, std::size_t(count - i) * sizeof(float));
    v -= shift;
    exponential(v);
    sum += v;
    std::memcpy(x + i, &v, std::size_t(count - i) * sizeof(float));
  }
  return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}
inline double exponentials(double* x, std::int64_t count, double shift) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] = std::exp(x[i] - shift);
  return sum;
}

}  // namespace lockstep::host
