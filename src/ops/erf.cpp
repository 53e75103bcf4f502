#include <numbers>

#include "ops/elementwise.h"

namespace lockstep {
namespace {

using elementary::erf;
using elementary::exp;

struct Erf {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return erf(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return ConstantOf<T>(2 * std::numbers::inv_sqrtpi) * g * exp(-x * x);
  }
};

}  // namespace

Tensor erf(const Tensor& x) { return unary("erf", "Erf", x, Erf()); }

}  // namespace lockstep
