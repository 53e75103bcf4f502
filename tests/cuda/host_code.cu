// A functor that calls host code: nvcc must refuse it, although the functor's gradient for tensors may call host code
// (see CMakeLists.txt).
#include "ops/elementwise.h"

namespace lockstep {

float host_only(float x);

struct CallsTheHost {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return T(host_only(float(x)));
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return g * x;
  }
};

Tensor wrong(const Tensor& x) { return unary("wrong", "Wrong", x, CallsTheHost()); }

}  // namespace lockstep
