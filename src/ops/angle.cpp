// Functions of a point's two coordinates: its angle and its distance from 0.
#include <lockstep/ops/compare.h>

#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace lockstep {
namespace {

using std::atan2;
using std::hypot;

// a / (a^2 + b^2), without the squares, which may overflow or underflow; 0 at (0, 0).
template <class T>
LOCKSTEP_HD T over_square_length(const T& a, const T& b) {
  const T length = hypot(a, b), divisor = where(eq(length, 0), 1, length);
  return a / divisor / divisor;
}

struct Atan2 {
  template <class T>
  LOCKSTEP_HD T operator()(T y, T x) const {
    return atan2(y, x);
  }
  template <class T>
  LOCKSTEP_HD T first(const T& g, const T& y, const T& x) const {
    return g * over_square_length(x, y);
  }
  template <class T>
  LOCKSTEP_HD T second(const T& g, const T& y, const T& x) const {
    return -g * over_square_length(y, x);
  }
};
struct Hypot {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return hypot(a, b);
  }
  template <class T>
  LOCKSTEP_HD T first(const T& g, const T& a, const T& b) const {
    const T length = hypot(a, b);
    return where(eq(length, 0), 0, g * a / where(eq(length, 0), 1, length));
  }
  template <class T>
  LOCKSTEP_HD T second(const T& g, const T& a, const T& b) const {
    return first(g, b, a);
  }
};

}  // namespace

Tensor atan2(const Tensor& y, const Tensor& x) {
  if (const auto cast = autocast::wide()) return atan2(cast(y), cast(x));
  return binary("atan2", "Atan2", y, x, Atan2());
}
Tensor hypot(const Tensor& a, const Tensor& b) {
  if (const auto cast = autocast::wide()) return hypot(cast(a), cast(b));
  return binary("hypot", "Hypot", a, b, Hypot());
}

}  // namespace lockstep
