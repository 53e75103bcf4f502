// Rounding and the sign: step functions, whose gradient is 0.
#include <lockstep/tensor/creation.h>

#include "ops/elementwise.h"

namespace lockstep {
namespace {

using std::ceil;
using std::floor;
using std::rint;
using std::trunc;

struct Floor {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return floor(x);
  }
};
struct Ceil {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return ceil(x);
  }
};
struct Round {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return rint(x);
  }
};
struct Trunc {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return trunc(x);
  }
};
struct Sign {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x > 0 ? T(1) : x < 0 ? T(-1) : x;  // 0 and NaN stay
  }
};

// An operation with gradient 0, which needs no saved tensors for backward.
template <class F>
Tensor step(const char* op, const char* node, const Tensor& x, const F& f) {
  check_floating(op, x);
  Tensor out = make_like(x);
  map_floating(op, 1, f, out, x);
  if (records(x)) record(node, out, {&x}, [](const Tensor& g) { return Gradients{zeros_like(g)}; });
  return out;
}

}  // namespace

Tensor floor(const Tensor& x) { return step("floor", "Floor", x, Floor()); }
Tensor ceil(const Tensor& x) { return step("ceil", "Ceil", x, Ceil()); }
Tensor round(const Tensor& x) { return step("round", "Round", x, Round()); }
Tensor trunc(const Tensor& x) { return step("trunc", "Trunc", x, Trunc()); }
Tensor sign(const Tensor& x) { return step("sign", "Sign", x, Sign()); }

}  // namespace lockstep
