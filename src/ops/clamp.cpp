#include <limits>

#include "ops/elementwise.h"

namespace lockstep {
namespace {

struct Clamp {
  double min, max;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x < T(min) ? T(min) : x > T(max) ? T(max) : x;
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return where(x >= Number<T>(min), where(x <= Number<T>(max), g, 0), 0);
  }
};

}  // namespace

Tensor clamp(const Tensor& x, const ClampOptions& options) {
  impl_of("clamp", x);
  if (!options.min && !options.max) throw InvalidArgument("[clamp] expected a bound, got neither min nor max");
  if (options.min && options.max && !(*options.min <= *options.max))
    throw InvalidArgument(text("[clamp] expected min <= max, got ", *options.min, " and ", *options.max));
  if (!is_floating(x.dtype())) {
    const Tensor above = options.min ? maximum(x, number_beside(x, *options.min)) : x;
    return options.max ? minimum(above, number_beside(above, *options.max)) : above;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return unary("clamp", "Clamp", x, Clamp{options.min.value_or(-kInfinity), options.max.value_or(kInfinity)});
}

}  // namespace lockstep
