// Rounding and the sign: steps, whose gradient is 0.
#include <lockstep/tensor/creation.h>

#include "ops/elementwise.h"

namespace lockstep {
namespace {

using std::ceil;
using std::floor;
using std::rint;
using std::trunc;

struct Step {
  template <std::floating_point T>
  LOCKSTEP_HD T gradient(T, T) const {
    return 0;
  }
  Tensor gradient(const Tensor& g, const Tensor&) const { return zeros_like(g); }
};

struct Floor : Step {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return floor(x);
  }
};
struct Ceil : Step {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return ceil(x);
  }
};
struct Round : Step {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return rint(x);
  }
};
struct Trunc : Step {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return trunc(x);
  }
};
struct Sign : Step {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x > 0 ? T(1) : x < 0 ? T(-1) : x;  // 0 and NaN stay
  }
};

}  // namespace

Tensor floor(const Tensor& x) { return unary("floor", "Floor", x, Floor()); }
Tensor ceil(const Tensor& x) { return unary("ceil", "Ceil", x, Ceil()); }
Tensor round(const Tensor& x) { return unary("round", "Round", x, Round()); }
Tensor trunc(const Tensor& x) { return unary("trunc", "Trunc", x, Trunc()); }
Tensor sign(const Tensor& x) { return unary("sign", "Sign", x, Sign()); }

}  // namespace lockstep
