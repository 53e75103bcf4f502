// Powers and roots.
#include <lockstep/tensor/creation.h>

#include "ops/autocast.h"
#include "ops/dtypes.h"
#include "ops/elementwise.h"

namespace lockstep {
namespace {

using elementary::log;
using elementary::pow;
using std::sqrt;

struct Square {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x * x;
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return 2 * g * x;
  }
};
struct Reciprocal {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return 1 / x;
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& y) const {
    return -g * y * y;
  }
};
struct Sqrt {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return sqrt(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& y) const {
    return g / (2 * y);
  }
};
struct Rsqrt {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return 1 / sqrt(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& y) const {
    return -g * y * y * y / 2;
  }
};
struct PowNumber {
  double exponent;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return pow(x, T(exponent));
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    if (exponent == 0) return where(eq(g, 0), g, 0);  // 0 * g would be NaN for infinite g
    return ConstantOf<T>(exponent) * g * pow(x, ConstantOf<T>(exponent - 1));
  }
};
struct Pow {
  template <class T>
  LOCKSTEP_HD T operator()(T base, T exponent) const {
    return pow(base, exponent);
  }
  template <class T>
  LOCKSTEP_HD T first(const T& g, const T& base, const T& exponent) const {
    return where(eq(exponent, 0), 0, g * exponent * pow(base, exponent - 1));
  }
  // The gradient of 0^p for p >= 0 is 0; the formula would compute 0 log 0.
  template <class T>
  LOCKSTEP_HD T second(const T& g, const T& base, const T& exponent) const {
    const T above = where(eq(base, 0), where(exponent >= 0, 1, base), base);
    const T slope = g * pow(base, exponent) * log(above);
    return where(eq(base, 0), where(exponent >= 0, 0, slope), slope);
  }
};
// base^exponent for a number base, which the exponent's 16-bit dtype may not be able to hold.
struct NumberPow {
  double base;
  template <class T>
  LOCKSTEP_HD T operator()(T exponent) const {
    return pow(T(base), exponent);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& exponent) const {
    const ConstantOf<T> number = ConstantOf<T>(base);
    const T slope = g * pow(number, exponent) * log(number);
    return base == 0 ? where(exponent >= 0, 0, slope) : slope;
  }
};

// Powers of integers, exponent >= 0, by repeated squaring.
Tensor whole_power(Tensor base, std::int64_t exponent) {
  Tensor result = ones_like(base);
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = mul(result, base);
    if (exponent > 1) base = mul(base, base);
  }
  return result;
}

}  // namespace

Tensor square(const Tensor& x) {
  return is_floating(impl_of("square", x).dtype) ? unary("square", "Square", x, Square()) : mul(x, x);
}
Tensor reciprocal(const Tensor& x) { return wide_unary<kOutput>("reciprocal", "Reciprocal", x, Reciprocal()); }
Tensor sqrt(const Tensor& x) { return unary<kOutput>("sqrt", "Sqrt", x, Sqrt()); }
Tensor rsqrt(const Tensor& x) { return wide_unary<kOutput>("rsqrt", "Rsqrt", x, Rsqrt()); }

Tensor pow(const Tensor& base, double exponent) {
  if (const auto cast = autocast::wide()) return pow(cast(base), exponent);
  if (is_floating(impl_of("pow", base).dtype)) {
    if (exponent == 2) return square(base);
    if (exponent == 0.5) return sqrt(base);  // as PyTorch, which differs from pow at -0 and -infinity
    return unary("pow", "Pow", base, PowNumber{exponent});
  }
  if (base.dtype() == kBool) return pow(base.to(kInt64), exponent);
  if (exponent >= 0 && holds(kInt64, exponent)) return whole_power(base, std::int64_t(exponent));
  return pow(base.to(kFloat32), exponent);
}

Tensor pow(const Tensor& base, const Tensor& exponent) {
  if (const auto cast = autocast::wide()) return pow(cast(base), cast(exponent));
  return binary("pow", "Pow", base, exponent, Pow());
}
Tensor pow(double base, const Tensor& exponent) {
  if (const auto cast = autocast::wide()) return pow(base, cast(exponent));
  if (!is_floating(impl_of("pow", exponent).dtype) && !holds(kInt64, base)) return pow(base, exponent.to(kFloat32));
  return unary("pow", "Pow", exponent, NumberPow{base});
}

}  // namespace lockstep
