// The larger and the smaller of two elements.
#include <lockstep/ops/arithmetic.h>

#include "ops/elementwise.h"

namespace lockstep {
namespace {

struct Maximum {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

// loses(a, b) is true where b was chosen. Equal elements share the gradient; if one is NaN, both get the whole
// gradient.
template <class F>
Tensor choose(const char* op, const char* node, const F& f, Tensor (*loses)(const Tensor&, const Tensor&),
              const Tensor& a, const Tensor& b) {
  check_same_device(op, a, b);
  const DType dtype = result_type(a, b);
  if (a.dtype() != b.dtype()) return choose(op, node, f, loses, a.to(dtype), b.to(dtype));
  Tensor out = broadcast_result(op, a, b, dtype);
  map_numeric(op, 1, f, out, a, b);
  if (records(a, b))
    record(node, out, {&a, &b},
           [loses, x = Saved(a), y = Saved(b), nx = needs_grad(a), ny = needs_grad(b)](const Tensor& g) {
             const Tensor p = x.get().detach(), q = y.get().detach();
             const Tensor part = where(eq(p, q), g / 2, g);
             return Gradients{nx ? sum_to(where(loses(p, q), 0, part), p.sizes()) : Tensor(),
                              ny ? sum_to(where(loses(q, p), 0, part), q.sizes()) : Tensor()};
           });
  return out;
}

}  // namespace

Tensor maximum(const Tensor& a, const Tensor& b) { return choose("maximum", "Maximum", Maximum(), lt, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return choose("minimum", "Minimum", Minimum(), gt, a, b); }

}  // namespace lockstep
