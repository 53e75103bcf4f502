// rms_norm: rows are normalized in one kernel each way.
#include <cmath>
#include <limits>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include "autograd/record.h"
#include "ops/affine.h"
#include "ops/autocast.h"
#include "ops/floating.h"
#include "ops/wide.h"
#include "tensor/kernels/rows.h"

namespace lockstep {
namespace {

using autograd::Gradients;
using autograd::record;
using autograd::records;
using autograd::Saved;

// 1 / sqrt(mean(x^2) + eps)
template <class Team, class T, class C = ComputeType<T>>
LOCKSTEP_HD C inverse_rms(const Team& team, const Row<const T>& x, C eps) {
  const C squares = sum_over(team, x.length, [&](std::int64_t i) { return C(x[i]) * C(x[i]); });
  return C(1) / std::sqrt(squares / C(x.length) + eps);
}

template <class T>
struct RmsNormalize {
  using C = ComputeType<T>;
  C eps;
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, Row<T> y, Row<const T> x, Row<const T> weight) const {
    const C scale = inverse_rms(team, x, eps);
    team.each(x.length, [&](std::int64_t i) { y[i] = T(C(x[i]) * scale * C(weight[i])); });
  }
};

// scale (h - y mean(h y)), h = g weight and y computed again from x.
template <class T>
struct RmsNormalizeGradient {
  using C = ComputeType<T>;
  C eps;
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, Row<T> out, Row<const T> g, Row<const T> x, Row<const T> weight) const {
    const C scale = inverse_rms(team, x, eps);
    const C along = sum_over(team, x.length, [&](std::int64_t i) { return C(g[i]) * C(weight[i]) * C(x[i]) * scale; });
    const C slope = along / C(x.length);
    team.each(x.length,
              [&](std::int64_t i) { out[i] = T(scale * (C(g[i]) * C(weight[i]) - C(x[i]) * scale * slope)); });
  }
};

struct RmsGradients {
  Tensor x, weight;
};

// Differentiable. What flows into the weight is a composition in any case: it is summed over the rows.
RmsGradients rms_gradients_by_ops(const Tensor& narrow_g, const Tensor& narrow_x, const Tensor& narrow_weight,
                                  double eps) {
  const Tensor g = widened(narrow_g), x = widened(narrow_x), weight = widened(narrow_weight);
  const Tensor scale = rsqrt(mean(square(x), {1}, true) + eps), y = x * scale, h = g * weight;
  return {(scale * (h - y * mean(h * y, {1}, true))).to(narrow_x.dtype()), sum(g * y, {0}).to(narrow_weight.dtype())};
}

Tensor rms_gradient(const Tensor& g, const Tensor& x, const Tensor& weight, double eps) {
  Tensor out = make_tensor(*x.impl()->storage->device, x.sizes(), x.dtype());
  visit_floating("rms_norm", x.dtype(), [&]<class T>() {
    map_rows<T, T, T, T>("rms_norm_gradient", 10, RmsNormalizeGradient<T>{ComputeType<T>(eps)}, 1, out, g, x,
                         weight.expand(x.sizes()));
  });
  return out;
}

// x: [rows, length], weight: [length].
Tensor rms_norm_rows(const Tensor& x, const Tensor& weight, double eps) {
  Tensor out = make_tensor(*x.impl()->storage->device, x.sizes(), x.dtype());
  visit_floating("rms_norm", x.dtype(), [&]<class T>() {
    map_rows<T, T, T>("rms_norm", 5, RmsNormalize<T>{ComputeType<T>(eps)}, 1, out, x,
                      weight.detach().expand(x.sizes()));
  });
  if (records(x, weight))
    record("RmsNorm", out, {&x, &weight},
           [x = Saved(x), weight = Saved(weight), eps, nx = autograd::needs_grad(x),
            nw = autograd::needs_grad(weight)](const Tensor& g) {
             const Tensor v = x.get(), w = weight.get();
             if (grad_enabled()) {
               const RmsGradients both = rms_gradients_by_ops(g, v, w, eps);
               return Gradients{nx ? both.x : Tensor(), nw ? both.weight : Tensor()};
             }
             Gradients gradients(2);
             if (nx) gradients[0] = rms_gradient(g, v, w, eps);
             if (nw) gradients[1] = rms_gradients_by_ops(g, v, w, eps).weight;
             return gradients;
           });
  return out;
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Shape& normalized, const Tensor& weight, std::optional<double> eps) {
  if (const auto cast = autocast::wide()) return rms_norm(cast(x), normalized, cast(weight), eps);
  check_floating("rms_norm", x);
  const int outer = x.dim() - normalized.rank();
  bool fits = outer >= 0 && !normalized.empty();
  for (int i = 0; fits && i < normalized.rank(); ++i) fits = x.sizes()[outer + i] == normalized[i];
  if (!fits) throw ShapeError(text("[rms_norm] expected x to end in the sizes ", normalized, ", got ", x.sizes()));
  check_affine("rms_norm", x, weight, normalized);
  if (x.numel() == 0) return affine(x.clone(), weight, {});
  const double least =
      x.dtype() == kFloat64 ? std::numeric_limits<double>::epsilon() : double(std::numeric_limits<float>::epsilon());
  const std::int64_t length = normalized.elements();
  const TensorOptions like = {.dtype = x.dtype(), .device = x.device()};
  const Tensor scale = weight.defined() ? weight.reshape({length}) : ones({length}, like);
  return rms_norm_rows(x.reshape({x.numel() / length, length}), scale, eps.value_or(least)).reshape(x.sizes());
}

}  // namespace lockstep
