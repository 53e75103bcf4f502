// Sigmoid and tanh.
#include "ops/elementwise.h"

namespace lockstep {
namespace {

using elementary::tanh;

struct Sigmoid {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return sigmoid(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& y) const {
    return g * y * (1 - y);
  }
};
struct Tanh {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return tanh(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& y) const {
    return g * (1 - y * y);
  }
};

}  // namespace

Tensor sigmoid(const Tensor& x) { return unary<kOutput>("sigmoid", "Sigmoid", x, Sigmoid()); }
Tensor tanh(const Tensor& x) { return unary<kOutput>("tanh", "Tanh", x, Tanh()); }

}  // namespace lockstep
