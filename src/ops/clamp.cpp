#include <limits>

#include "ops/elementwise.h"

namespace lockstep {
namespace {

// The gradient is 0 at a bound, beyond it, and at NaN. Without a bound, an infinite x still has gradient 1.
struct Clamp {
  double min, max;
  bool has_min, has_max;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x < T(min) || min != min ? T(min) : x > T(max) || max != max ? T(max) : x;
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    const T below = has_max ? where(x < ConstantOf<T>(max), g, 0) : g;
    return has_min ? where(x > ConstantOf<T>(min), below, 0) : below;
  }
};

}  // namespace

Tensor clamp(const Tensor& x, const ClampOptions& options) {
  impl_of("clamp", x);
  if (!options.min && !options.max) throw InvalidArgument("[clamp] expected a bound, got neither min nor max");
  if (options.min && options.max && *options.min > *options.max)
    throw InvalidArgument(text("[clamp] expected min <= max, got ", *options.min, " and ", *options.max));
  if (!is_floating(x.dtype())) {
    const Tensor above = options.min ? maximum(x, number_beside(x, *options.min)) : x;
    return options.max ? minimum(above, number_beside(above, *options.max)) : above;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return unary("clamp", "Clamp", x,
               Clamp{options.min.value_or(-kInfinity), options.max.value_or(kInfinity), options.min.has_value(),
                     options.max.has_value()});
}

}  // namespace lockstep
