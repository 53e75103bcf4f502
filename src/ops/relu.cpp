#include <lockstep/ops/activation.h>

#include "ops/elementwise.h"
#include "runtime/fused_ops/activation.h"

namespace lockstep {
namespace {

struct Relu {
  static constexpr bool kArithmetic = true;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return relu_of(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& y) const {
    return where(y <= 0, 0, g);  // the gradient passes where y is NaN
  }
};
struct LeakyRelu {
  double slope;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x > 0 ? x : T(slope) * x;
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return where(x > 0, g, ConstantOf<T>(slope) * g);
  }
};

}  // namespace

Tensor relu(const Tensor& x) { return unary<kOutput>("relu", "Relu", x, Relu()); }

Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return unary("leaky_relu", "LeakyRelu", x, LeakyRelu{negative_slope});
}

}  // namespace lockstep
