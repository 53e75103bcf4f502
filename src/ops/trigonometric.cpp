#include "ops/elementwise.h"

namespace lockstep {
namespace {

using std::cos;
using std::sin;

struct Sin {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return sin(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return g * cos(x);
  }
};
struct Cos {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return cos(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return -g * sin(x);
  }
};

}  // namespace

Tensor sin(const Tensor& x) { return unary("sin", "Sin", x, Sin()); }
Tensor cos(const Tensor& x) { return unary("cos", "Cos", x, Cos()); }

}  // namespace lockstep
