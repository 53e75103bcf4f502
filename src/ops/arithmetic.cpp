#include <lockstep/ops/arithmetic.h>

#include <cmath>

#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>

#include "autograd/in_place.h"
#include "core/integers.h"
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/record.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

// The number as a T, which can hold it (with_number()); a negative number wraps around in an unsigned T.
template <class T>
LOCKSTEP_HD T number_as(double number) {
  if constexpr (std::is_integral_v<T>)
    return T(std::int64_t(number));
  else
    return T(number);
}

struct AddScaled {
  static constexpr bool kArithmetic = true;
  double alpha;
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return T(Wrapping<T>(a) + Wrapping<T>(number_as<T>(alpha)) * Wrapping<T>(b));
  }
};
struct Add {
  static constexpr bool kArithmetic = true;
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return T(Wrapping<T>(a) + Wrapping<T>(b));
  }
};
struct Multiply {
  static constexpr bool kArithmetic = true;
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return T(Wrapping<T>(a) * Wrapping<T>(b));
  }
};
struct Divide {
  static constexpr bool kArithmetic = true;
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return a / b;
  }
};
struct AddNumber {
  static constexpr bool kArithmetic = true;
  double number;
  template <class T>
  LOCKSTEP_HD T operator()(T a) const {
    return T(Wrapping<T>(a) + Wrapping<T>(number_as<T>(number)));
  }
};
struct MultiplyNumber {
  static constexpr bool kArithmetic = true;
  double number;
  template <class T>
  LOCKSTEP_HD T operator()(T a) const {
    return T(Wrapping<T>(a) * Wrapping<T>(number_as<T>(number)));
  }
};
struct DivideByNumber {
  static constexpr bool kArithmetic = true;
  double number;
  template <class T>
  LOCKSTEP_HD T operator()(T a) const {
    return a / T(number);
  }
};
// number / x. As in div(), the kernel divides: it does not multiply by 1 / x.
struct NumberOver {
  double number;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return T(number) / x;
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return -(g / x * (ConstantOf<T>(number) / x));
  }
};
template <class F>
Tensor apply(const char* op, const F& f, const Tensor& a, const Tensor& b) {
  Tensor out = broadcast_result(op, a, b, a.impl()->dtype);
  map_numeric(op, 1, f, out, a, b);
  return out;
}

// The dtype of an operation between a tensor and a number. Unsigned integers wrap around, so that adding -n subtracts
// n: a negative number keeps the unsigned dtype if that can hold n.
DType with_number(DType dtype, double number) {
  if (is_floating(dtype)) return dtype;
  if (dtype != kBool && holds(dtype, dtype == kUInt8 ? std::abs(number) : number)) return dtype;
  return holds(kInt64, number) ? kInt64 : kFloat32;
}

bool same_dtype(const Tensor& a, const Tensor& b) { return a.impl()->dtype == b.impl()->dtype; }

// True if one tensor is float32 and the other one is of 16-bit floats: residual connections in autocast regions.
bool adds_narrow_to_float32(const Tensor& a, const Tensor& b) {
  const DType x = a.dtype(), y = b.dtype();
  return (x == kFloat32 && (y == kBFloat16 || y == kFloat16)) || (y == kFloat32 && (x == kBFloat16 || x == kFloat16));
}

// a + b in float32, in one kernel, where one tensor is of 16-bit floats: it is not converted first. The sum has the
// same bits.
[[gnu::noinline]] Tensor mixed_add(const Tensor& a, const Tensor& b) {
  const Tensor &wide = a.dtype() == kFloat32 ? a : b, &narrow = a.dtype() == kFloat32 ? b : a;
  Tensor out = broadcast_result("add", wide, narrow, kFloat32);
  if (narrow.dtype() == kBFloat16)
    map<float, float, BFloat16>("add", 1, Add(), out, wide, narrow);
  else
    map<float, float, Half>("add", 1, Add(), out, wide, narrow);
  if (records(a, b))
    record("Add", out, {&a, &b},
           [x = a.sizes(), y = b.sizes(), nx = needs_grad(a), ny = needs_grad(b), of_x = a.dtype(),
            of_y = b.dtype()](const Tensor& g) {
             return Gradients{nx ? sum_to(g, x).to(of_x) : Tensor(), ny ? sum_to(g, y).to(of_y) : Tensor()};
           });
  return out;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b, double alpha) {
  check_same_device("add", a, b);
  DType common = result_type(a, b);
  if (common != kBool) common = with_number(common, alpha);
  if (a.dtype() != common || b.dtype() != common) {
    if (common == kFloat32 && alpha == 1 && adds_narrow_to_float32(a, b)) return mixed_add(a, b);
    return add(a.to(common), b.to(common), alpha);
  }
  Tensor out = broadcast_result("add", a, b, a.impl()->dtype);
  if (alpha == 1)
    map_numeric("add", 1, Add(), out, a, b);
  else
    map_numeric("add", 2, AddScaled{alpha}, out, a, b);
  if (records(a, b))
    record(alpha < 0 ? "Sub" : "Add", out, {&a, &b},
           [x = a.sizes(), y = b.sizes(), nx = needs_grad(a), ny = needs_grad(b), alpha](const Tensor& g) {
             return Gradients{nx ? sum_to(g, x) : Tensor(), ny ? sum_to(alpha == 1 ? g : mul(g, alpha), y) : Tensor()};
           });
  return out;
}

Tensor sub(const Tensor& a, const Tensor& b, double alpha) { return add(a, b, -alpha); }

Tensor mul(const Tensor& a, const Tensor& b) {
  check_same_device("mul", a, b);
  if (!same_dtype(a, b)) {
    const DType common = result_type(a, b);
    return mul(a.to(common), b.to(common));
  }
  Tensor out = apply("mul", Multiply(), a, b);
  if (records(a, b))
    record("Mul", out, {&a, &b}, [x = Saved(a), y = Saved(b), nx = needs_grad(a), ny = needs_grad(b)](const Tensor& g) {
      const Tensor p = x.get(), q = y.get();
      return Gradients{nx ? sum_to(g * q, p.sizes()) : Tensor(), ny ? sum_to(g * p, q.sizes()) : Tensor()};
    });
  return out;
}

Tensor div(const Tensor& a, const Tensor& b) {
  check_same_device("div", a, b);
  const DType common = result_type(a, b);
  if (!same_dtype(a, b) || !is_floating(common)) {
    const DType real = is_floating(common) ? common : kFloat32;
    return div(a.to(real), b.to(real));
  }
  Tensor out = apply("div", Divide(), a, b);
  if (records(a, b))
    record("Div", out, {&a, &b}, [x = Saved(a), y = Saved(b), nx = needs_grad(a), ny = needs_grad(b)](const Tensor& g) {
      const Tensor p = x.get(), q = y.get();
      const Tensor share = g / q;
      return Gradients{nx ? sum_to(share, p.sizes()) : Tensor(), ny ? sum_to(-(share * (p / q)), q.sizes()) : Tensor()};
    });
  return out;
}

Tensor add(const Tensor& a, double b) {
  const DType dtype = with_number(impl_of("add", a).dtype, b);
  if (dtype != a.dtype()) return add(a.to(dtype), b);
  Tensor out = make_like(a, dtype);
  map_numeric("add", 1, AddNumber{b}, out, a);
  if (records(a)) record("Add", out, {&a}, [](const Tensor& g) { return Gradients{g}; });
  return out;
}

Tensor mul(const Tensor& a, double b) {
  const DType dtype = with_number(impl_of("mul", a).dtype, b);
  if (dtype != a.dtype()) return mul(a.to(dtype), b);
  Tensor out = make_like(a, dtype);
  map_numeric("mul", 1, MultiplyNumber{b}, out, a);
  if (records(a)) record("Mul", out, {&a}, [b](const Tensor& g) { return Gradients{mul(g, b)}; });
  return out;
}

Tensor neg(const Tensor& a) { return mul(a, -1); }

// Divides instead of multiplying by 1 / b: so x / x is 1, and the reciprocal of a small number cannot overflow.
Tensor div(const Tensor& a, double b) {
  if (!is_floating(impl_of("div", a).dtype)) return div(a.to(kFloat32), b);
  Tensor out = make_like(a);
  map_floating("div", 1, DivideByNumber{b}, out, a);
  if (records(a)) record("Div", out, {&a}, [b](const Tensor& g) { return Gradients{div(g, b)}; });
  return out;
}

Tensor operator/(double a, const Tensor& b) {
  return unary("div", "Div", is_floating(impl_of("div", b).dtype) ? b : b.to(kFloat32), NumberOver{a});
}

// Negates b in the dtype of the result, because a narrower dtype would wrap around.
Tensor operator-(double a, const Tensor& b) { return add(neg(b.to(with_number(impl_of("sub", b).dtype, a))), a); }

namespace {

void check_fits(const char* op, const Tensor& target, const Tensor& other) {
  check_same_device(op, target, other);
  if (broadcast(op, target.sizes(), other.sizes()) != target.sizes())
    throw ShapeError(text("[", op, "] expected a shape that broadcasts to ", target.sizes(), ", got ", other.sizes()));
  if (is_floating(other.dtype()) && !is_floating(target.dtype()))
    throw DTypeError(text("[", op, "] expected a dtype that ", target.dtype(), " can hold, got ", other.dtype()));
}

// True if the other operand has a wider dtype than the target. Rounding this operand to the target's dtype first could
// lose its value (a small update, say), so the in-place operation is computed in the promoted dtype.
bool widens(const Tensor& target, const Tensor& other) {
  return is_floating(target.dtype()) && promote(target.dtype(), other.dtype()) != target.dtype();
}

}  // namespace

Tensor& Tensor::add_(const Tensor& other, double alpha) {
  autograd::check_in_place("add_", *this, other);
  check_fits("add_", *this, other);
  if (widens(*this, other)) return copy_(lockstep::add(*this, other, alpha));
  const Tensor fit = other.to(dtype());
  if (with_number(dtype(), alpha) != dtype() && dtype() != kBool)
    throw DTypeError(text("[add_] expected an alpha that ", dtype(), " can hold, got ", alpha));
  const Tensor self = *this;
  if (alpha == 1)
    map_numeric("add_", 1, Add(), self, self, fit);
  else
    map_numeric("add_", 2, AddScaled{alpha}, self, self, fit);
  bump_version(*this);
  if (records(self, fit))
    autograd::record_in_place("Add", *this, {&fit}, [y = fit.sizes(), alpha](const Tensor& g) {
      return Gradients{g, sum_to(alpha == 1 ? g : lockstep::mul(g, alpha), y)};
    });
  return *this;
}

Tensor& Tensor::mul_(const Tensor& other) {
  autograd::check_in_place("mul_", *this, other);
  check_fits("mul_", *this, other);
  if (widens(*this, other)) return copy_(lockstep::mul(*this, other));
  Tensor fit = other.to(dtype());
  const Tensor before = records(*this, fit) ? clone() : *this;
  if (fit.is_same(*this)) fit = before;
  map_numeric("mul_", 1, Multiply(), *this, *this, fit);
  bump_version(*this);
  if (records(*this, fit)) {
    autograd::record_in_place("Mul", *this, {&fit}, [x = Saved(before), y = Saved(fit)](const Tensor& g) {
      const Tensor q = y.get();
      return Gradients{g * q, sum_to(g * x.get(), q.sizes())};
    });
  }
  return *this;
}

Tensor& Tensor::div_(const Tensor& other) {
  autograd::check_in_place("div_", *this, other);
  check_floating("div_", *this);
  check_fits("div_", *this, other);
  if (widens(*this, other)) return copy_(lockstep::div(*this, other));
  Tensor fit = other.to(dtype());
  const Tensor before = records(*this, fit) ? clone() : *this;
  if (fit.is_same(*this)) fit = before;
  map_floating("div_", 1, Divide(), *this, *this, fit);
  bump_version(*this);
  if (records(*this, fit)) {
    autograd::record_in_place("Div", *this, {&fit}, [x = Saved(before), y = Saved(fit)](const Tensor& g) {
      const Tensor q = y.get(), share = g / q;
      return Gradients{share, sum_to(-(share * (x.get() / q)), q.sizes())};
    });
  }
  return *this;
}

namespace {

// Applies F{number} to each element in place. Throws DTypeError for a number that the tensor's dtype cannot hold.
template <class F>
void change_by(const char* op, const Tensor& target, double number) {
  autograd::check_in_place(op, target);
  if (with_number(target.dtype(), number) != target.dtype())
    throw DTypeError(text("[", op, "] expected a number that ", target.dtype(), " can hold, got ", number));
  map_numeric(op, 1, F{number}, target, target);
  bump_version(target);
}

}  // namespace

Tensor& Tensor::add_(double number) {
  change_by<AddNumber>("add_", *this, number);
  if (records(*this)) autograd::record_in_place("Add", *this, {}, [](const Tensor& g) { return Gradients{g}; });
  return *this;
}

Tensor& Tensor::div_(double number) {
  autograd::check_in_place("div_", *this);
  check_floating("div_", *this);
  map_floating("div_", 1, DivideByNumber{number}, *this, *this);
  bump_version(*this);
  if (records(*this))
    autograd::record_in_place("Div", *this, {},
                              [number](const Tensor& g) { return Gradients{lockstep::div(g, number)}; });
  return *this;
}

Tensor& Tensor::mul_(double factor) {
  change_by<MultiplyNumber>("mul_", *this, factor);
  if (records(*this))
    autograd::record_in_place("Mul", *this, {},
                              [factor](const Tensor& g) { return Gradients{lockstep::mul(g, factor)}; });
  return *this;
}

Tensor& Tensor::fill_(double value) {
  autograd::check_in_place("fill_", *this);
  check_fits("fill_", value, dtype());
  fill_values(*this, value);
  bump_version(*this);
  if (records(*this))
    autograd::record_in_place("Fill", *this, {}, [](const Tensor& g) { return Gradients{zeros_like(g)}; });
  return *this;
}

}  // namespace lockstep
