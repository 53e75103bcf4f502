#include "swish.h"

#include <array>

#include <lockstep/extend/op.h>

namespace {

struct Swish {
  template <class T>
  LOCKSTEP_HD T operator()(T x, T beta) const {
    return x * lockstep::sigmoid(beta * x);
  }
  template <class T>
  LOCKSTEP_HD std::array<T, 2> gradient(const T& g, const T& x, const T& beta) const {
    const T s = lockstep::sigmoid(beta * x);
    const T slope = g * x * s * (1 - s);
    return {g * s + beta * slope, x * slope};
  }
};

}  // namespace

lockstep::Tensor swish(const lockstep::Tensor& x, const lockstep::Tensor& beta) {
  return lockstep::extend::elementwise("swish", Swish(), x, beta);
}
