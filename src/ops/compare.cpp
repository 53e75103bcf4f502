#include <lockstep/ops/compare.h>

#include <lockstep/tensor/creation.h>

#include "ops/dtypes.h"
#include "ops/elementwise.h"

namespace lockstep {
namespace {

struct Equal {
  template <class T>
  LOCKSTEP_HD bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  LOCKSTEP_HD bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Less {
  template <class T>
  LOCKSTEP_HD bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  LOCKSTEP_HD bool operator()(T a, T b) const {
    return a <= b;
  }
};

struct And {
  LOCKSTEP_HD bool operator()(bool a, bool b) const { return a && b; }
};
struct Or {
  LOCKSTEP_HD bool operator()(bool a, bool b) const { return a || b; }
};
struct Not {
  LOCKSTEP_HD bool operator()(bool a) const { return !a; }
};

template <class F>
Tensor compare(const char* op, const F& f, const Tensor& a, const Tensor& b) {
  check_same_device(op, a, b);
  const Tensor out = broadcast_result(op, a, b, kBool);
  const DType common = result_type(a, b);
  const Tensor p = a.to(common), q = b.to(common);
  map(op, 1,
      visit_all(
          common, [&]<class T>() -> auto& { return map_forms<F, bool, T, T>(); }),
      f, out, p, q);
  return out;
}

template <class F>
Tensor combine(const char* op, const F& f, const Tensor& a, const Tensor& b) {
  check_same_device(op, a, b);
  const Tensor out = broadcast_result(op, a, b, kBool);
  map<bool, bool, bool>(op, 1, f, out, a.to(kBool), b.to(kBool));
  return out;
}

struct BitAnd {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return T(a & b);
  }
};
struct BitOr {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return T(a | b);
  }
};
struct BitXor {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return T(a ^ b);
  }
};

template <class F>
Tensor combine_bits(const char* op, const F& f, const Tensor& a, const Tensor& b) {
  check_same_device(op, a, b);
  const DType dtype = result_type(a, b);
  if (a.dtype() != dtype || b.dtype() != dtype) return combine_bits(op, f, a.to(dtype), b.to(dtype));
  const Tensor out = broadcast_result(op, a, b, dtype);
  visit_numeric(op, dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) map<T, T, T>(op, 1, f, out, a, b);
  });
  return out;
}

bool is_bool(const char* op, const Tensor& x) {
  const DType dtype = impl_of(op, x).dtype;
  if (is_floating(dtype)) throw DTypeError(text("[", op, "] expected tensors of bool or integers, got ", dtype));
  return dtype == kBool;
}

struct IsNan {
  template <class T>
  LOCKSTEP_HD bool operator()(T x) const {
    return x != x;
  }
};
// True if x is infinite: then x - x is NaN, although x equals itself.
struct IsInf {
  template <class T>
  LOCKSTEP_HD bool operator()(T x) const {
    return x == x && x - x != x - x;
  }
};
struct IsFinite {
  template <class T>
  LOCKSTEP_HD bool operator()(T x) const {
    return x - x == x - x;
  }
};

// For dtypes with only finite numbers, fills the result with f(0).
template <class F>
Tensor classify(const char* op, const F& f, const Tensor& x) {
  const TensorImpl& impl = impl_of(op, x);
  Tensor out = make_like(x, kBool);
  if (is_floating(impl.dtype))
    map(op, 1,
        visit_floating(
            op, impl.dtype, [&]<class T>() -> auto& { return map_forms<F, bool, T>(); }),
        f, out, x);
  else
    out.fill_(f(0.));
  return out;
}

}  // namespace

Tensor number_beside(const Tensor& like, double number) {
  const TensorImpl& impl = impl_of("number", like);
  DType dtype = impl.dtype;
  if (!is_floating(dtype) && (dtype == kBool || !holds(dtype, number)))
    dtype = holds(kInt64, number) ? kInt64 : kFloat32;
  return full(like.dim() ? Shape{1} : Shape{}, number, {.dtype = dtype, .device = like.device()});
}

Tensor eq(const Tensor& a, const Tensor& b) { return compare("eq", Equal(), a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare("ne", NotEqual(), a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare("lt", Less(), a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return compare("le", LessEqual(), a, b); }

Tensor logical_and(const Tensor& a, const Tensor& b) { return combine("logical_and", And(), a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return combine("logical_or", Or(), a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return combine("logical_xor", NotEqual(), a, b); }
Tensor logical_not(const Tensor& a) {
  impl_of("logical_not", a);
  const Tensor p = a.to(kBool);
  Tensor out = make_like(p, kBool);
  map<bool, bool>("logical_not", 1, Not(), out, p);
  return out;
}

Tensor operator&(const Tensor& a, const Tensor& b) {
  const bool first = is_bool("&", a), second = is_bool("&", b);
  return first && second ? logical_and(a, b) : combine_bits("&", BitAnd(), a, b);
}
Tensor operator|(const Tensor& a, const Tensor& b) {
  const bool first = is_bool("|", a), second = is_bool("|", b);
  return first && second ? logical_or(a, b) : combine_bits("|", BitOr(), a, b);
}
Tensor operator^(const Tensor& a, const Tensor& b) {
  const bool first = is_bool("^", a), second = is_bool("^", b);
  return first && second ? logical_xor(a, b) : combine_bits("^", BitXor(), a, b);
}
Tensor operator~(const Tensor& a) {
  if (is_bool("~", a)) return logical_not(a);
  return combine_bits("~", BitXor(), a, full({}, a.dtype() == kUInt8 ? 255 : -1, a.options()));
}

bool equal(const Tensor& a, const Tensor& b) {
  check_same_device("equal", a, b);
  if (a.dtype() != b.dtype()) throw DTypeError(text("[equal] expected one dtype, got ", a.dtype(), " and ", b.dtype()));
  return a.sizes() == b.sizes() && all(eq(a, b)).item<bool>();
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol) {
  check_same_device("allclose", a, b);
  if (a.dtype() != b.dtype())
    throw DTypeError(text("[allclose] expected one dtype, got ", a.dtype(), " and ", b.dtype()));
  if (a.sizes() != b.sizes()) return false;
  const Tensor p = a.detach().to(kFloat64), q = b.detach().to(kFloat64);  // eq() is for infinities: inf - inf is NaN
  return all(eq(p, q) | (isfinite(q) & le(abs(p - q), abs(q) * rtol + atol))).item<bool>();
}

Tensor isnan(const Tensor& x) { return classify("isnan", IsNan(), x); }
Tensor isinf(const Tensor& x) { return classify("isinf", IsInf(), x); }
Tensor isfinite(const Tensor& x) { return classify("isfinite", IsFinite(), x); }

Tensor eq(const Tensor& a, double b) { return eq(a, number_beside(a, b)); }
Tensor ne(const Tensor& a, double b) { return ne(a, number_beside(a, b)); }
Tensor lt(const Tensor& a, double b) { return lt(a, number_beside(a, b)); }
Tensor le(const Tensor& a, double b) { return le(a, number_beside(a, b)); }
Tensor gt(const Tensor& a, double b) { return gt(a, number_beside(a, b)); }
Tensor ge(const Tensor& a, double b) { return ge(a, number_beside(a, b)); }

}  // namespace lockstep
