// The remainders of a division: with the divisor's sign, and with the dividend's.
#include <lockstep/ops/arithmetic.h>

#include "ops/dtypes.h"
#include "ops/elementwise.h"

namespace lockstep {
namespace {

using std::fmod;

struct Remainder {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    if constexpr (std::is_unsigned_v<T>) {
      return b == 0 ? T(0) : T(a % b);
    } else if constexpr (std::is_integral_v<T>) {
      if (b == 0 || b == T(-1)) return 0;  // a / -1 may overflow
      const T left = T(a % b);
      return left != 0 && (left < 0) != (b < 0) ? T(left + b) : left;
    } else {
      const T left = fmod(a, b);
      return left != 0 && (left < 0) != (b < 0) ? left + b : left;
    }
  }
};

struct Fmod {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return fmod(a, b);
    else if constexpr (std::is_unsigned_v<T>)
      return b == 0 ? T(0) : T(a % b);
    else
      return b == 0 || b == T(-1) ? T(0) : T(a % b);  // a / -1 may overflow
  }
};

// floor(a / b), consistent with the remainder; a / b itself may round up to the next integer.
struct FloorOfQuotient {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    if (b == 0) return a / b;
    const T left = fmod(a, b), quotient = (a - left) / b;
    return std::floor(left != 0 && (left < 0) != (b < 0) ? quotient - T(0.5) : quotient + T(0.5));
  }
};
struct TruncOfQuotient {  // as in PyTorch, off by one where a / b rounds to an integer
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return std::trunc(a / b);
  }
};

// quotient(a, b): the multiple of b that is subtracted from a.
template <class F, class Quotient>
Tensor remainder_op(const char* op, const char* node, const F& f, const Quotient& quotient, const Tensor& a,
                    const Tensor& b) {
  check_same_device(op, a, b);
  const DType dtype = result_type(a, b);
  if (a.dtype() != dtype || b.dtype() != dtype) return remainder_op(op, node, f, quotient, a.to(dtype), b.to(dtype));
  Tensor out = broadcast_result(op, a, b, dtype);
  map_numeric(op, 2, f, out, a, b);
  if (records(a, b))
    record(node, out, {&a, &b},
           [op, quotient, x = Saved(a), y = Saved(b), nx = needs_grad(a), ny = needs_grad(b)](const Tensor& g) {
             const Tensor p = x.get(), q = y.get();
             Tensor by_divisor;
             if (ny) {
               Tensor times = broadcast_result(op, p, q, p.dtype());
               map_floating(op, 3, quotient, times, p, q);
               by_divisor = sum_to(-(g * times), q.sizes());
             }
             return Gradients{nx ? sum_to(g, p.sizes()) : Tensor(), by_divisor};
           });
  return out;
}

Tensor checked_divisor(const char* op, const Tensor& a, double b) {
  const Tensor divisor = number_beside(a, b);
  if (b == 0 && !is_floating(promote(a.dtype(), divisor.dtype())))
    throw InvalidArgument(text("[", op, "] cannot divide integer tensors by 0"));
  return divisor;
}

}  // namespace

Tensor remainder(const Tensor& a, const Tensor& b) {
  return remainder_op("remainder", "Remainder", Remainder(), FloorOfQuotient(), a, b);
}
Tensor remainder(const Tensor& a, double b) { return remainder(a, checked_divisor("remainder", a, b)); }

Tensor fmod(const Tensor& a, const Tensor& b) { return remainder_op("fmod", "Fmod", Fmod(), TruncOfQuotient(), a, b); }
Tensor fmod(const Tensor& a, double b) { return fmod(a, checked_divisor("fmod", a, b)); }

}  // namespace lockstep
