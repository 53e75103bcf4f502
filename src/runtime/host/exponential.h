// exp over rows that lie densely in memory, in vector registers. Pure functions.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/exp_polynomial.h"

namespace lockstep::host {

using Floats = float __attribute__((vector_size(32)));
using Ints = std::int32_t __attribute__((vector_size(32)));
inline constexpr std::int64_t kFloats = 8;

/// exp(x) for each lane (exp_by_polynomial); 0 below -87, infinity above 88.3; NaN for NaN.
[[gnu::always_inline]] inline void exponential(Floats& x) {
  const Ints below = x<-87.0f, above = x> 88.3f;
  Floats t = below ? Floats{} - 87.0f : x;
  t = above ? Floats{} + 88.3f : t;
  const Floats p = exp_by_polynomial<Floats, Ints>(t);
  x = above ? Floats{} + INFINITY : below ? Floats{} : p;
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
