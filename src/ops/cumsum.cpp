#include <lockstep/ops/layout.h>
#include <lockstep/ops/order.h>

#include "core/integers.h"
#include "kernels/rows/rows.h"
#include "ops/autocast.h"
#include "ops/record.h"

namespace lockstep {
namespace {

// Sums floats in double: a running sum over a long row would lose small terms.
template <class Out, class In>
struct RunningSum {
  using Accumulator = Wrapping<std::conditional_t<std::is_integral_v<Out>, Out, double>>;
  LOCKSTEP_HD void operator()(RowOf<Out> out, RowOf<const In> x) const {
    Accumulator sum = 0;
    for (std::int64_t i = 0; i < x.length; ++i) {
      sum += Accumulator(ComputeType<In>(x[i]));
      out[i] = Out(ComputeType<Out>(sum));
    }
  }
};

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t dim) {
  if (const auto cast = autocast::wide()) return cumsum(cast(x), dim);
  const TensorImpl& from = impl_of("cumsum", x);
  const int d = wrap_dim("cumsum", dim, from.sizes.rank());
  Tensor out = make_tensor(*from.storage->device, from.sizes, is_floating(from.dtype) ? from.dtype : kInt64);
  visit_all(from.dtype, [&]<class T>() {
    using Result = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    map_rows<Result, T>("cumsum", 1, RunningSum<Result, T>(), d, out, x);
  });
  if (records(x))
    record("Cumsum", out, {&x}, [d](const Tensor& g) { return Gradients{flip(cumsum(flip(g, {d}), d), {d})}; });
  return out;
}

}  // namespace lockstep
