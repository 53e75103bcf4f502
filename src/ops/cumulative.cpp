// Running sums and products. The gradient of a product needs no division, so zeros are no problem: for element k it is
//   (x[0] ... x[k - 1]) s[k],   s[k] = g[k] + x[k + 1] s[k + 1],
// and the gradients of such recurrences are again such recurrences.
#include <lockstep/ops/order.h>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/layout.h>
#include <lockstep/tensor/creation.h>

#include "core/integers.h"
#include "kernels/rows/rows.h"
#include "ops/autocast.h"
#include "ops/dtypes.h"
#include "ops/record.h"

namespace lockstep {
namespace {

enum class Join { add, multiply };

// Floats accumulate in double: a running sum in float over a long row would lose small terms.
template <Join kJoin, class Out, class In>
struct Running {
  using Accumulator = Wrapping<std::conditional_t<std::is_integral_v<Out>, Out, double>>;
  LOCKSTEP_HD void operator()(RowOf<Out> out, RowOf<const In> x) const {
    Accumulator total = kJoin == Join::add ? 0 : 1;
    for (std::int64_t i = 0; i < x.length; ++i) {
      const auto element = Accumulator(ComputeType<In>(x[i]));
      if constexpr (kJoin == Join::add)
        total += element;
      else
        total *= element;
      out[i] = Out(ComputeType<Out>(total));
    }
  }
};

// Running sums or products of x along a dimension, not recorded for backward.
template <Join kJoin>
Tensor running(const char* op, const Tensor& x, int dim) {
  const TensorImpl& from = *x.impl();
  Tensor out = make_tensor(*from.storage->device, from.sizes, is_floating(from.dtype) ? from.dtype : kInt64);
  visit_all(from.dtype, [&]<class T>() {
    using Result = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    map_rows<Result, T>(op, 1, Running<kJoin, Result, T>(), dim, out, x);
  });
  return out;
}

// out[i] = g[i] + x[i + 1] out[i + 1]
template <class T>
struct FromTheEnd {
  LOCKSTEP_HD void operator()(RowOf<T> out, RowOf<const T> g, RowOf<const T> x) const {
    double sum = 0;
    for (std::int64_t i = x.length - 1; i >= 0; --i) {
      sum = double(g[i]) + (i + 1 < x.length ? double(x[i + 1]) * sum : 0);
      out[i] = T(sum);
    }
  }
};

// out[i] = g[i] + x[i] out[i - 1]
template <class T>
struct FromTheStart {
  LOCKSTEP_HD void operator()(RowOf<T> out, RowOf<const T> g, RowOf<const T> x) const {
    double sum = 0;
    for (std::int64_t i = 0; i < x.length; ++i) {
      sum = double(g[i]) + (i > 0 ? double(x[i]) * sum : 0);
      out[i] = T(sum);
    }
  }
};

// Shifts the elements by one position along dim; the first element becomes `first`.
Tensor behind(const Tensor& x, int dim, double first) {
  Shape one = x.sizes();
  one[dim] = 1;
  return cat({full(one, first, x.options()), x.narrow(dim, 0, x.sizes()[dim] - 1)}, dim);
}

// Computes the recurrence `Direction` of g and x along dim. Its gradient has the recurrence in the other direction. g
// and x: not empty, of one shape with at least one dimension, float32 or float64.
template <template <class> class Direction, template <class> class Other>
Tensor recurrence(const char* node, const Tensor& g, const Tensor& x, int dim) {
  Tensor out = make_tensor(*x.impl()->storage->device, x.sizes(), x.dtype());
  visit_floating(node, x.dtype(), [&]<class T>() {
    if constexpr (sizeof(T) >= 4) map_rows<T, T, T>("cumprod_gradient", 2, Direction<T>(), dim, out, g, x);
  });
  if (records(g, x))
    record(node, out, {&g, &x}, [x = Saved(x), y = Saved(out, kOutput), dim, node](const Tensor& h) {
      const Tensor factors = x.get(), result = y.get(), other = recurrence<Other, Direction>(node, h, factors, dim);
      constexpr bool kDescends = std::is_same_v<Direction<float>, FromTheEnd<float>>;
      return Gradients{other, kDescends ? result * behind(other, dim, 0) : other * behind(result, dim, 0)};
    });
  return out;
}

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t dim) {
  if (const auto cast = autocast::wide()) return cumsum(cast(x), dim);
  const int d = wrap_dim("cumsum", dim, impl_of("cumsum", x).sizes.rank());
  Tensor out = running<Join::add>("cumsum", x, d);
  if (records(x))
    record("Cumsum", out, {&x}, [d](const Tensor& g) { return Gradients{flip(cumsum(flip(g, {d}), d), {d})}; });
  return out;
}

Tensor cumprod(const Tensor& x, std::int64_t dim) {
  if (const auto cast = autocast::wide()) return cumprod(cast(x), dim);
  const int d = wrap_dim("cumprod", dim, impl_of("cumprod", x).sizes.rank());
  Tensor out = running<Join::multiply>("cumprod", x, d);
  if (records(x))
    record("Cumprod", out, {&x}, [x = Saved(x), y = Saved(out, kOutput), d](const Tensor& g) {
      const Tensor factors = widened(x.get());
      if (factors.dim() == 0 || factors.numel() == 0) return Gradients{g};
      const Tensor after = recurrence<FromTheEnd, FromTheStart>("CumprodGradient", widened(g), factors, d);
      return Gradients{(behind(widened(y.get()), d, 1) * after).to(g.dtype())};
    });
  return out;
}

}  // namespace lockstep
