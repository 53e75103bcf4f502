#include <lockstep/ops/activation.h>

#include "ops/elementwise.h"

namespace lockstep {
namespace {

struct Hardtanh {
  double min, max;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x < T(min) ? T(min) : x > T(max) ? T(max) : x;
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return where(x <= ConstantOf<T>(min), 0, where(x >= ConstantOf<T>(max), 0, g));
  }
};

struct Hardsigmoid {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x <= -3 ? T(0) : x >= 3 ? T(1) : (x + 3) / 6;
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return where(x > -3, where(x < 3, g / 6, 0), 0);
  }
};

}  // namespace

Tensor hardtanh(const Tensor& x, double min, double max) {
  if (!(min <= max)) throw InvalidArgument(text("[hardtanh] expected min <= max, got ", min, " and ", max));
  return unary("hardtanh", "Hardtanh", x, Hardtanh{min, max});
}

Tensor relu6(const Tensor& x) { return unary("relu6", "Relu6", x, Hardtanh{0, 6}); }

Tensor hardsigmoid(const Tensor& x) { return unary("hardsigmoid", "Hardsigmoid", x, Hardsigmoid()); }

}  // namespace lockstep
