// Exponential linear units.
#include <lockstep/ops/activation.h>

#include "ops/elementwise.h"

namespace lockstep {
namespace {

using elementary::exp;
using elementary::expm1;

struct Elu {
  double alpha, scale, rate;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x > 0 ? T(scale) * x : T(scale * alpha) * expm1(T(rate) * x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    const T fall = exp(where(x > 0, 0, ConstantOf<T>(rate) * x));  // avoids an overflow, whose gradient would be NaN
    return where(x > 0, ConstantOf<T>(scale) * g, ConstantOf<T>(scale * alpha * rate) * g * fall);
  }
};

}  // namespace

Tensor elu(const Tensor& x, double alpha) { return unary("elu", "Elu", x, Elu{alpha, 1, 1}); }

Tensor celu(const Tensor& x, double alpha) {
  if (alpha == 0) throw InvalidArgument("[celu] expected an alpha other than 0, got 0");
  return unary("celu", "Celu", x, Elu{alpha, 1, 1 / alpha});
}

Tensor selu(const Tensor& x) {
  return unary("selu", "Selu", x, Elu{1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1});
}

}  // namespace lockstep
