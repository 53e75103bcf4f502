// What a division leaves, with the divisor's sign.
#include <lockstep/ops/arithmetic.h>

#include "ops/elementwise.h"
#include "ops/number.h"

namespace lockstep {
namespace {

using autograd::Gradients;
using autograd::needs_grad;
using autograd::record;
using autograd::records;
using autograd::Saved;
using std::fmod;

struct Remainder {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    if constexpr (std::is_unsigned_v<T>) {
      return b == 0 ? T(0) : T(a % b);
    } else if constexpr (std::is_integral_v<T>) {
      if (b == 0 || b == T(-1)) return 0;  // a / -1 may not fit
      const T left = T(a % b);
      return left != 0 && (left < 0) != (b < 0) ? T(left + b) : left;
    } else {
      const T left = fmod(a, b);
      return left != 0 && (left < 0) != (b < 0) ? left + b : left;
    }
  }
};

// floor(a / b), as the remainder has it: a / b itself may be rounded up to the next whole number.
struct Quotient {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    if (b == 0) return a / b;
    const T left = fmod(a, b), quotient = (a - left) / b;
    return std::floor(left != 0 && (left < 0) != (b < 0) ? quotient - T(0.5) : quotient + T(0.5));
  }
};
Tensor quotient(const Tensor& a, const Tensor& b) {
  Tensor out = broadcast_result("remainder", a, b, a.dtype());
  map_floating("remainder", 3, Quotient(), out, a, b);
  return out;
}

}  // namespace

Tensor remainder(const Tensor& a, const Tensor& b) {
  check_same_device("remainder", a, b);
  const DType dtype = result_type(a, b);
  if (a.dtype() != dtype || b.dtype() != dtype) return remainder(a.to(dtype), b.to(dtype));
  Tensor out = broadcast_result("remainder", a, b, dtype);
  map_numeric("remainder", 2, Remainder(), out, a, b);
  if (records(a, b))
    record("Remainder", out, {&a, &b},
           [x = Saved(a), y = Saved(b), nx = needs_grad(a), ny = needs_grad(b)](const Tensor& g) {
             const Tensor p = x.get(), q = y.get();
             return Gradients{nx ? sum_to(g, p.sizes()) : Tensor(),
                              ny ? sum_to(-(g * quotient(p, q)), q.sizes()) : Tensor()};
           });
  return out;
}

Tensor remainder(const Tensor& a, double b) {
  const Tensor divisor = number_beside(a, b);
  if (b == 0 && !is_floating(promote(a.dtype(), divisor.dtype())))
    throw InvalidArgument("[remainder] expected a number that is not 0 beside integers, got 0");
  return remainder(a, divisor);
}

}  // namespace lockstep
