// layer_norm and group_norm: rows are normalized in one kernel each way.
#include <cmath>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>

#include "autograd/record.h"
#include "ops/affine.h"
#include "ops/autocast.h"
#include "ops/reduced_dims.h"
#include "ops/wide.h"
#include "tensor/kernels/rows.h"

namespace lockstep {
namespace {

using autograd::Gradients;
using autograd::record;
using autograd::records;
using autograd::Saved;

template <class C>
struct Moments {
  C mean;
  C scale;  // 1 / sqrt(variance + eps)
};

template <class Team, class T, class C = ComputeType<T>>
LOCKSTEP_HD Moments<C> moments(const Team& team, const Row<const T>& x, C eps) {
  const C mean = sum_over(team, x.length, [&](std::int64_t i) { return C(x[i]); }) / C(x.length);
  const C squares = sum_over(team, x.length, [&](std::int64_t i) { return (C(x[i]) - mean) * (C(x[i]) - mean); });
  return {mean, C(1) / std::sqrt(squares / C(x.length) + eps)};
}

template <class T>
struct Normalize {
  using C = ComputeType<T>;
  C eps;
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, Row<T> y, Row<const T> x) const {
    const Moments<C> of = moments(team, x, eps);
    team.each(x.length, [&](std::int64_t i) { y[i] = T((C(x[i]) - of.mean) * of.scale); });
  }
};

// scale (g - mean(g) - y mean(g y)), the statistics and y computed again from x.
template <class T>
struct NormalizeGradient {
  using C = ComputeType<T>;
  C eps;
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, Row<T> out, Row<const T> g, Row<const T> x) const {
    const Moments<C> of = moments(team, x, eps);
    const auto [total, along] = sum_over(team, x.length, [&](std::int64_t i) {
      return TwoSums<C>{C(g[i]), C(g[i]) * (C(x[i]) - of.mean) * of.scale};
    });
    const C mean = total / C(x.length), slope = along / C(x.length);
    team.each(x.length, [&](std::int64_t i) {
      out[i] = T(of.scale * (C(g[i]) - mean - (C(x[i]) - of.mean) * of.scale * slope));
    });
  }
};

Tensor gradient_by_ops(const Tensor& narrow_g, const Tensor& narrow_x, double eps) {
  const Tensor g = widened(narrow_g), x = widened(narrow_x);
  const Tensor centered = x - mean(x, {1}, true);
  const Tensor scale = rsqrt(mean(square(centered), {1}, true) + eps);
  const Tensor y = centered * scale;
  return (scale * (g - mean(g, {1}, true) - y * mean(g * y, {1}, true))).to(narrow_g.dtype());
}

// x: [rows, length].
Tensor normalize_rows(const char* op, const char* node, const Tensor& x, double eps) {
  Tensor out = make_tensor(*x.impl()->storage->device, x.sizes(), x.dtype());
  visit_floating(op, x.dtype(),
                 [&]<class T>() { map_rows<T, T>(op, 8, Normalize<T>{ComputeType<T>(eps)}, 1, out, x); });
  if (records(x))
    record(node, out, {&x}, [x = Saved(x), eps](const Tensor& g) {
      const Tensor v = x.get();
      if (grad_enabled()) return Gradients{gradient_by_ops(g, v, eps)};
      Tensor gradient = make_tensor(*v.impl()->storage->device, v.sizes(), v.dtype());
      visit_floating("normalize", v.dtype(), [&]<class T>() {
        map_rows<T, T, T>("normalize_gradient", 12, NormalizeGradient<T>{ComputeType<T>(eps)}, 1, gradient, g, v);
      });
      return Gradients{gradient};
    });
  return out;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight, const Tensor& bias, double eps) {
  if (const auto cast = autocast::wide()) return layer_norm(cast(x), normalized, cast(weight), cast(bias), eps);
  check_floating("layer_norm", x);
  const int outer = x.dim() - normalized.rank();
  bool fits = outer >= 0 && !normalized.empty();
  for (int i = 0; fits && i < normalized.rank(); ++i) fits = x.sizes()[outer + i] == normalized[i];
  if (!fits) throw ShapeError(text("[layer_norm] expected x to end in the sizes ", normalized, ", got ", x.sizes()));
  check_affine("layer_norm", x, weight, normalized);
  check_affine("layer_norm", x, bias, normalized);
  const std::int64_t length = normalized.elements();
  const std::int64_t rows = length ? x.numel() / length : 0;
  const Tensor flat = length ? x.reshape({rows, length}) : x.reshape({0, 0});
  return affine(normalize_rows("layer_norm", "LayerNorm", flat, eps).reshape(x.sizes()), weight, bias);
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  if (const auto cast = autocast::wide()) return group_norm(cast(x), groups, cast(weight), cast(bias), eps);
  check_floating("group_norm", x);
  if (x.dim() < 2 || groups < 1 || x.sizes()[1] % groups != 0)
    throw ShapeError(text("[group_norm] expected x [batch, channels, ...] with channels in ", groups,
                          " equal groups, got ", x.sizes()));
  const std::int64_t batch = x.sizes()[0], channels = x.sizes()[1];
  check_affine("group_norm", x, weight, {channels});
  check_affine("group_norm", x, bias, {channels});
  if (x.numel() == 0) return affine(x.clone(), per_channel(weight, x.dim()), per_channel(bias, x.dim()));
  const Tensor flat = x.reshape({batch * groups, x.numel() / (batch * groups)});
  const Tensor y = normalize_rows("group_norm", "GroupNorm", flat, eps).reshape(x.sizes());
  return affine(y, per_channel(weight, x.dim()), per_channel(bias, x.dim()));
}

}  // namespace lockstep
