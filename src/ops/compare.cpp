#include <lockstep/ops/compare.h>

#include <lockstep/tensor/creation.h>

#include "ops/elementwise.h"
#include "ops/number.h"

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

template <class F>
Tensor compare(const char* op, const F& f, const Tensor& a, const Tensor& b) {
  check_same_device(op, a, b);
  if (a.dtype() != b.dtype()) {
    const DType common = promote(a.dtype(), b.dtype());
    return compare(op, f, a.to(common), b.to(common));
  }
  Tensor out = broadcast_result(op, a, b, kBool);
  visit_all(a.dtype(), [&]<class T>() { map<bool, T, T>(op, 1, f, out, a, b); });
  return out;
}

}  // namespace

Tensor number_beside(const Tensor& like, double number) {
  const TensorImpl& impl = impl_of("number", like);
  DType dtype = impl.dtype;
  if (!is_floating(dtype) && (dtype == kBool || !holds(dtype, number)))
    dtype = holds(kInt64, number) ? kInt64 : kFloat32;
  return full({}, number, {.dtype = dtype, .device = like.device()});
}

Tensor eq(const Tensor& a, const Tensor& b) { return compare("eq", Equal(), a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare("ne", NotEqual(), a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare("lt", Less(), a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return compare("le", LessEqual(), a, b); }

Tensor eq(const Tensor& a, double b) { return eq(a, number_beside(a, b)); }
Tensor ne(const Tensor& a, double b) { return ne(a, number_beside(a, b)); }
Tensor lt(const Tensor& a, double b) { return lt(a, number_beside(a, b)); }
Tensor le(const Tensor& a, double b) { return le(a, number_beside(a, b)); }
Tensor gt(const Tensor& a, double b) { return gt(a, number_beside(a, b)); }
Tensor ge(const Tensor& a, double b) { return ge(a, number_beside(a, b)); }

}  // namespace lockstep
