// Selection by a condition: where and masked_fill.
#include <lockstep/ops/compare.h>

#include "ops/elementwise.h"

namespace lockstep {
namespace {

struct Choose {
  template <class T>
  LOCKSTEP_HD T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

void check_condition(const char* op, const Tensor& condition) {
  if (impl_of(op, condition).dtype != kBool)
    throw DTypeError(text("[", op, "] expected a bool condition, got ", condition.dtype()));
}

// a and b have one dtype.
Tensor choose(const char* op, const char* node, const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Shape sizes = broadcast(op, condition.sizes(), broadcast(op, a.sizes(), b.sizes()));
  Tensor out = make_like_either(a, b, sizes, a.dtype());
  map(op, 1,
      visit_all(
          a.dtype(), [&]<class T>() -> auto& { return map_forms<Choose, T, bool, T, T>(); }),
      Choose(), out, condition, a, b);
  if (records(a, b))
    record(
        node, out, {&a, &b},
        [c = Saved(condition), x = a.sizes(), y = b.sizes(), nx = needs_grad(a), ny = needs_grad(b)](const Tensor& g) {
          return Gradients{nx ? sum_to(where(c.get(), g, 0), x) : Tensor(),
                           ny ? sum_to(where(c.get(), 0, g), y) : Tensor()};
        });
  return out;
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  check_same_device("where", condition, a, b);
  check_condition("where", condition);
  const DType common = result_type(a, b);
  return choose("where", "Where", condition, a.to(common), b.to(common));
}

Tensor where(const Tensor& condition, const Tensor& a, double b) { return where(condition, a, number_beside(a, b)); }
Tensor where(const Tensor& condition, double a, const Tensor& b) { return where(condition, number_beside(b, a), b); }

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  check_same_device("masked_fill", x, mask);
  check_condition("masked_fill", mask);
  if (broadcast("masked_fill", x.sizes(), mask.sizes()) != x.sizes())
    throw ShapeError(text("[masked_fill] expected a mask that broadcasts to ", x.sizes(), ", got ", mask.sizes()));
  const Tensor fill = number_beside(x, value);
  if (fill.dtype() != x.dtype() && x.dtype() != kBool)
    throw DTypeError(text("[masked_fill] expected a value that ", x.dtype(), " can hold, got ", value));
  return choose("masked_fill", "MaskedFill", mask, fill.to(x.dtype()), x);
}

}  // namespace lockstep
