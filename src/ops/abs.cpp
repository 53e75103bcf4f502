#include "ops/elementwise.h"

namespace lockstep {
namespace {

using std::abs;

struct Abs {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return abs(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return where(x > 0, g, where(x < 0, -g, 0));
  }
};

}  // namespace

Tensor abs(const Tensor& x) {
  if (is_floating(impl_of("abs", x).dtype)) return unary("abs", "Abs", x, Abs());
  return x.dtype() == kUInt8 ? x.clone() : maximum(x, neg(x));
}

}  // namespace lockstep
