// Activations x * s(x) with a smooth step s: silu, mish and hardswish.
#include <lockstep/ops/activation.h>

#include "ops/elementwise.h"

namespace lockstep {
namespace {

using elementary::tanh;

struct Silu {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x * sigmoid(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    const T s = sigmoid(x);
    return g * s * (1 + x * (1 - s));
  }
};
struct Mish {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x * tanh(softplus(x));
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    const T t = tanh(softplus(x));
    return g * (t + x * sigmoid(x) * (1 - t * t));
  }
};
struct Hardswish {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x <= -3 ? T(0) : x >= 3 ? x : x * (x + 3) / 6;
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return where(x <= -3, 0, where(x < 3, g * (2 * x + 3) / 6, g));
  }
};

}  // namespace

Tensor silu(const Tensor& x) { return unary("silu", "Silu", x, Silu()); }
Tensor mish(const Tensor& x) { return unary("mish", "Mish", x, Mish()); }
Tensor hardswish(const Tensor& x) { return unary("hardswish", "Hardswish", x, Hardswish()); }

}  // namespace lockstep
