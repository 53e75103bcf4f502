#include <limits>

#include "ops/elementwise.h"

namespace lockstep {
namespace {

struct NanToNum {
  double nan, posinf, neginf;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    if (x != x) return T(nan);
    return x == kInfinity ? T(posinf) : x == -kInfinity ? T(neginf) : x;
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return where(eq(x - x, 0), g, 0);  // x - x is NaN for infinite or NaN x
  }
};

double greatest(DType dtype) {
  switch (dtype) {
    case kFloat16: return 65504;
    case kBFloat16: return 0x1.FEp127;
    case kFloat32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

}  // namespace

Tensor nan_to_num(const Tensor& x, std::optional<double> nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  const DType dtype = impl_of("nan_to_num", x).dtype;
  if (!is_floating(dtype)) return x.clone();
  return unary("nan_to_num", "NanToNum", x,
               NanToNum{nan.value_or(0), posinf.value_or(greatest(dtype)), neginf.value_or(-greatest(dtype))});
}

}  // namespace lockstep
