// Exponentials and logarithms.
#include "ops/elementwise.h"

namespace lockstep {
namespace {

using elementary::exp;
using elementary::expm1;
using elementary::log;
using elementary::log10;
using elementary::log1p;
using elementary::log2;

struct Exp {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return exp(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& y) const {
    return g * y;
  }
};
struct Expm1 {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return expm1(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& y) const {
    return g * (y + 1);
  }
};
struct Log {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return log(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return g / x;
  }
};
struct Log2 {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return log2(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return g / (x * ConstantOf<T>(0.69314718055994530942));
  }
};
struct Log10 {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return log10(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return g / (x * ConstantOf<T>(2.30258509299404568402));
  }
};
struct Log1p {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return log1p(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return g / (x + 1);
  }
};

}  // namespace

Tensor exp(const Tensor& x) { return wide_unary<kOutput>("exp", "Exp", x, Exp()); }
Tensor expm1(const Tensor& x) { return wide_unary<kOutput>("expm1", "Expm1", x, Expm1()); }
Tensor log(const Tensor& x) { return wide_unary("log", "Log", x, Log()); }
Tensor log2(const Tensor& x) { return wide_unary("log2", "Log2", x, Log2()); }
Tensor log10(const Tensor& x) { return wide_unary("log10", "Log10", x, Log10()); }
Tensor log1p(const Tensor& x) { return wide_unary("log1p", "Log1p", x, Log1p()); }

}  // namespace lockstep
