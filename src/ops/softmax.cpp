// softmax, log_softmax and logsumexp: one pass for the maximum, one for the sum, one for the result.
#include <lockstep/ops/softmax.h>

#include <lockstep/core/elementary.h>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>

#include "kernels/rows/rows.h"
#include "ops/autocast.h"
#include "ops/record.h"
#include "ops/reduced_dims.h"

namespace lockstep {
namespace {

// The sum of exp(x - shift).
template <class C, class Team, class AnyRow>
LOCKSTEP_HD C exponentials(const Team& team, const AnyRow& x, C shift) {
  return sum_over(team, x.length, [&](auto i) { return C(elementary::exp(C(x[i]) - shift)); });
}

// The number to subtract before exp: the maximum, or 0 if that is infinite. (Then logsumexp is infinite, not NaN.)
template <class C>
LOCKSTEP_HD C finite_shift(C best) {
  return std::isinf(best) ? C(0) : best;
}

template <class T>
struct Softmax {
  using C = ComputeType<T>;
  using Wide = Softmax<C>;
  bool is_gradient_of_logsumexp = false;  // that gradient is 0, not NaN, beside an infinite element
  template <class Team, class To, class From>
  LOCKSTEP_HD void operator()(const Team& team, To y, From from) const {
    const auto& x = team.kept(from);
    const C best = greatest(team, x, x.length), shift = is_gradient_of_logsumexp ? finite_shift(best) : best;
    // A single thread stores the terms in y. A team of several threads computes them twice, which is cheaper. For
    // 16-bit rows a single thread computes them twice too, because y could not hold them.
    if constexpr (Team::kSerial && std::is_same_v<C, T>) {
      const C sum = sum_over(team, x.length, [&](std::int64_t i) { return y[i] = elementary::exp(x[i] - shift); });
      const C scale = C(1) / sum;
      team.each(x.length, [&](std::int64_t i) { y[i] *= scale; });
    } else {
      const C scale = C(1) / exponentials(team, x, shift);
      team.fill(y, [&](auto i) { return T(elementary::exp(C(x[i]) - shift) * scale); });
    }
  }
};

template <class T>
struct LogSoftmax {
  using C = ComputeType<T>;
  using Wide = LogSoftmax<C>;
  template <class Team, class To, class From>
  LOCKSTEP_HD void operator()(const Team& team, To y, From from) const {
    const auto& x = team.kept(from);
    const C best = greatest(team, x, x.length);
    const C rest = elementary::log(exponentials(team, x, best));
    team.fill(y, [&](auto i) { return T(C(x[i]) - best - rest); });
  }
};

template <class T>
struct LogSumExp {
  using C = ComputeType<T>;
  using Wide = LogSumExp<C>;
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<T> out, RowOf<const T> x) const {
    const C best = greatest(team, x, x.length);
    const C shift = finite_shift(best);
    const C sum = exponentials(team, x, shift);
    if (team.first()) out[0] = T(shift + elementary::log(sum));
  }
};

template <class T>
struct SoftmaxGradient {
  using C = ComputeType<T>;
  using Wide = SoftmaxGradient<C>;
  template <class Team, class To, class From>
  LOCKSTEP_HD void operator()(const Team& team, To out, From from_g, From from_y) const {
    const auto &g = team.kept(from_g), &y = team.kept(from_y);
    const C sum = sum_over(team, y.length, [&](auto i) { return C(g[i]) * C(y[i]); });
    team.fill(out, [&](auto i) { return T(C(y[i]) * (C(g[i]) - sum)); });
  }
};

template <class T>
struct LogSoftmaxGradient {
  using C = ComputeType<T>;
  using Wide = LogSoftmaxGradient<C>;
  template <class Team, class To, class From>
  LOCKSTEP_HD void operator()(const Team& team, To out, From from_g, From from_y) const {
    const auto &g = team.kept(from_g), &y = team.kept(from_y);
    const C sum = sum_over(team, y.length, [&](auto i) { return C(g[i]); });
    team.fill(out, [&](auto i) { return T(C(g[i]) - elementary::exp(C(y[i])) * sum); });
  }
};

Tensor like(const Tensor& x) { return make_tensor(*x.impl()->storage->device, x.sizes(), x.dtype()); }

// The gradient, as a differentiable operation if backward is recorded, else in one kernel.
Tensor softmax_gradient(const Tensor& g, const Tensor& y, int dim) {
  if (grad_enabled()) return y * (g - sum(g * y, {dim}, true));
  const Tensor out = like(y);
  visit_floating("softmax", y.dtype(),
                 [&]<class T>() { map_rows<T, T, T>("softmax_gradient", 4, SoftmaxGradient<T>(), dim, out, g, y); });
  return out;
}

Tensor log_softmax_gradient(const Tensor& g, const Tensor& y, int dim) {
  if (grad_enabled()) return g - softmax(y, dim) * sum(g, {dim}, true);
  const Tensor out = like(y);
  visit_floating("log_softmax", y.dtype(), [&]<class T>() {
    map_rows<T, T, T>("log_softmax_gradient", 4, LogSoftmaxGradient<T>(), dim, out, g, y);
  });
  return out;
}

Tensor softmax_along(const Tensor& x, int dim, bool is_gradient_of_logsumexp = false) {
  Tensor out = like(x);
  visit_floating("softmax", x.dtype(),
                 [&]<class T>() { map_rows<T, T>("softmax", 5, Softmax<T>{is_gradient_of_logsumexp}, dim, out, x); });
  if (records(x))
    record("Softmax", out, {&x},
           [y = Saved(out, kOutput), dim](const Tensor& g) { return Gradients{softmax_gradient(g, y.get(), dim)}; });
  return out;
}

Tensor log_sum_along(const Tensor& x, int dim) {  // keeps the dimension
  Shape sizes = x.sizes();
  if (!sizes.empty()) sizes[dim] = 1;
  Tensor out = make_tensor(*x.impl()->storage->device, sizes, x.dtype());
  visit_floating("logsumexp", x.dtype(),
                 [&]<class T>() { map_rows<T, T>("logsumexp", 4, LogSumExp<T>(), dim, out, x); });
  if (records(x))
    record("Logsumexp", out, {&x},
           [x = Saved(x), dim](const Tensor& g) { return Gradients{g * softmax_along(x.get(), dim, true)}; });
  return out;
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t dim) {
  if (const auto cast = autocast::wide()) return softmax(cast(x), dim);
  return softmax_along(x, wrap_dim("softmax", dim, impl_of("softmax", x).sizes.rank()));
}

Tensor log_softmax(const Tensor& x, std::int64_t dim) {
  if (const auto cast = autocast::wide()) return log_softmax(cast(x), dim);
  const int d = wrap_dim("log_softmax", dim, impl_of("log_softmax", x).sizes.rank());
  Tensor out = like(x);
  visit_floating("log_softmax", x.dtype(),
                 [&]<class T>() { map_rows<T, T>("log_softmax", 5, LogSoftmax<T>(), d, out, x); });
  if (records(x))
    record("LogSoftmax", out, {&x},
           [y = Saved(out, kOutput), d](const Tensor& g) { return Gradients{log_softmax_gradient(g, y.get(), d)}; });
  return out;
}

Tensor logsumexp(const Tensor& x, const Shape& dims, bool keep_dims) {
  if (const auto cast = autocast::wide()) return logsumexp(cast(x), dims, keep_dims);
  check_floating("logsumexp", x);
  const DimMask mask = mask_or_all("logsumexp", dims, x.dim());
  const MergedDims merged = merge_dims(x, mask);
  return log_sum_along(merged.x, merged.dim).reshape(reduced_sizes(x.sizes(), mask, keep_dims));
}

}  // namespace lockstep
