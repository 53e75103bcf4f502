// Activations that are small near 0: hardshrink, softshrink, tanhshrink, threshold and softsign.
#include <lockstep/ops/activation.h>

#include "ops/elementwise.h"

namespace lockstep {
namespace {

using elementary::tanh;
using std::abs;

struct Hardshrink {
  double lambda;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x >= T(-lambda) && x <= T(lambda) ? T(0) : x;  // NaN stays NaN
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return where(abs(x) <= ConstantOf<T>(lambda), 0, g);
  }
};
struct Softshrink {
  double lambda;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x > T(lambda) ? x - T(lambda) : x < T(-lambda) ? x + T(lambda) : x * 0;
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return where(abs(x) <= ConstantOf<T>(lambda), 0, g);
  }
};
struct Tanhshrink {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x - tanh(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    const T y = tanh(x);
    return g * y * y;
  }
};
struct Threshold {
  double threshold, value;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x <= T(threshold) ? T(value) : x;
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return where(x <= ConstantOf<T>(threshold), 0, g);
  }
};
struct Softsign {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x / (1 + abs(x));
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    const T size = 1 + abs(x);
    return g / (size * size);
  }
};

void check_lambda(const char* op, double lambda) {
  if (!(lambda >= 0)) throw InvalidArgument(text("[", op, "] expected lambda >= 0, got ", lambda));
}

}  // namespace

Tensor hardshrink(const Tensor& x, double lambda) {
  check_lambda("hardshrink", lambda);
  return unary("hardshrink", "Hardshrink", x, Hardshrink{lambda});
}

Tensor softshrink(const Tensor& x, double lambda) {
  check_lambda("softshrink", lambda);
  return unary("softshrink", "Softshrink", x, Softshrink{lambda});
}

Tensor tanhshrink(const Tensor& x) { return unary("tanhshrink", "Tanhshrink", x, Tanhshrink()); }

Tensor threshold(const Tensor& x, double threshold, double value) {
  return unary("threshold", "Threshold", x, Threshold{threshold, value});
}

Tensor softsign(const Tensor& x) { return unary("softsign", "Softsign", x, Softsign()); }

}  // namespace lockstep
