// addcmul and addcdiv: a tensor plus a multiple of the product or quotient of two others.
#include <lockstep/ops/arithmetic.h>

#include "ops/dtypes.h"
#include "ops/elementwise.h"

namespace lockstep {
namespace {

struct AddProduct {
  static constexpr bool kArithmetic = true;
  double value;
  template <class T>
  LOCKSTEP_HD T operator()(T x, T a, T b) const {
    return x + T(value) * a * b;
  }
  Tensor first(const Tensor& g, const Tensor&, const Tensor& b) const { return g * b * value; }
  Tensor second(const Tensor& g, const Tensor& a, const Tensor&) const { return g * a * value; }
};

struct AddQuotient {
  static constexpr bool kArithmetic = true;
  double value;
  template <class T>
  LOCKSTEP_HD T operator()(T x, T a, T b) const {
    return x + T(value) * a / b;
  }
  Tensor first(const Tensor& g, const Tensor&, const Tensor& b) const { return g * value / b; }
  Tensor second(const Tensor& g, const Tensor& a, const Tensor& b) const { return -(g * (a * value / (b * b))); }
};

// x, a and b have one floating dtype.
template <class F>
Tensor add_multiple(const char* op, const char* node, const Tensor& x, const Tensor& a, const Tensor& b, const F& f) {
  const Shape sizes = broadcast(op, broadcast(op, x.sizes(), a.sizes()), b.sizes());
  Tensor out = x.sizes() == sizes ? make_like(x) : make_tensor(*x.impl()->storage->device, sizes, x.dtype());
  map_floating(op, 3, f, out, x, a, b);
  if (records(x, a, b))
    record(node, out, {&x, &a, &b},
           [f, sizes_of_x = x.sizes(), p = Saved(a), q = Saved(b), nx = needs_grad(x), na = needs_grad(a),
            nb = needs_grad(b)](const Tensor& g) {
             const Tensor wide = widened(g), first = widened(p.get()), second = widened(q.get());
             const auto given = [&](const Tensor& whole, const Shape& shape) {
               return sum_to(whole, shape).to(g.dtype());
             };
             return Gradients{nx ? sum_to(g, sizes_of_x) : Tensor(),
                              na ? given(f.first(wide, first, second), first.sizes()) : Tensor(),
                              nb ? given(f.second(wide, first, second), second.sizes()) : Tensor()};
           });
  return out;
}

DType common_dtype(const char* op, const Tensor& x, const Tensor& a, const Tensor& b) {
  check_same_device(op, x, a, b);
  return result_type({&x, &a, &b});
}

}  // namespace

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value) {
  const DType dtype = common_dtype("addcmul", x, a, b);
  if (is_floating(dtype))
    return add_multiple("addcmul", "Addcmul", x.to(dtype), a.to(dtype), b.to(dtype), AddProduct{value});
  if (dtype == kBool || !holds(dtype, value))
    throw DTypeError(text("[addcmul] integer tensors need a whole value, got ", value, " with dtype ", dtype,
                          "; bool tensors are not supported"));
  return add(x.to(dtype), mul(a.to(dtype), b.to(dtype)), value);
}

Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value) {
  const DType dtype = common_dtype("addcdiv", x, a, b);
  if (!is_floating(dtype))
    throw DTypeError(text("[addcdiv] expected a floating dtype, got ", dtype,
                          ": convert one of the tensors, or use addcmul and div"));
  return add_multiple("addcdiv", "Addcdiv", x.to(dtype), a.to(dtype), b.to(dtype), AddQuotient{value});
}

}  // namespace lockstep
