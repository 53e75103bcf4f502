#include "ops/elementwise.h"

namespace lockstep {
namespace {

using elementary::cos;
using elementary::sin;
using elementary::tan;

struct Sin {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return sin(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return g * cos(x);
  }
};
struct Cos {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return cos(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return -g * sin(x);
  }
};

struct Tan {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return tan(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& y) const {
    return g * (1 + y * y);
  }
};

}  // namespace

Tensor sin(const Tensor& x) { return unary("sin", "Sin", x, Sin()); }
Tensor cos(const Tensor& x) { return unary("cos", "Cos", x, Cos()); }
Tensor tan(const Tensor& x) { return unary<kOutput>("tan", "Tan", x, Tan()); }

}  // namespace lockstep
