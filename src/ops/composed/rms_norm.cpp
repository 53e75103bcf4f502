// rms_norm: one kernel normalizes the rows, and one computes the gradient.
#include <limits>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include "autograd/record.h"
#include "kernels/rows/rows.h"
#include "ops/affine.h"
#include "ops/autocast.h"
#include "ops/floating.h"
#include "ops/norm_gradient.h"
#include "ops/wide.h"

namespace lockstep {
namespace {

using autograd::Gradients;
using autograd::record;
using autograd::records;
using autograd::Saved;

template <class T>
struct RmsNormalize {
  using C = ComputeType<T>;
  using Wide = RmsNormalize<C>;
  C eps;
  template <class Team, class To, class From>
  LOCKSTEP_HD void operator()(const Team& team, To y, From from, From weight) const {
    const auto& x = team.kept(from);
    const auto value = [&](auto i) { return C(x[i]); };
    NormRowStats<C> of;
    find_scale<false>(
        of, x.length, eps, [&](const auto& term) { return sum_over(team, x.length, term); }, value);
    team.fill(y, [&](auto i) { return T(of.normal(value(i)) * C(weight[i])); });
  }
};

struct RmsGradients {
  Tensor x, weight;
};

// Differentiable itself.
RmsGradients rms_gradients_by_ops(const Tensor& narrow_g, const Tensor& narrow_x, const Tensor& narrow_weight,
                                  double eps) {
  const Tensor g = widened(narrow_g), x = widened(narrow_x), weight = widened(narrow_weight);
  const Tensor scale = rsqrt(mean(square(x), {1}, true) + eps), y = x * scale, h = g * weight;
  return {(scale * (h - y * mean(h * y, {1}, true))).to(narrow_x.dtype()), sum(g * y, {0}).to(narrow_weight.dtype())};
}

RmsGradients rms_gradients_by_kernel(const Tensor& g, const Tensor& x, const Tensor& weight, double eps, bool needs_x,
                                     bool needs_weight) {
  const auto made = [&](bool needed, const Shape& sizes) {
    return needed ? make_tensor(*x.impl()->storage->device, sizes, x.dtype()) : Tensor();
  };
  const RmsGradients out = {made(needs_x, x.sizes()), made(needs_weight, {x.sizes()[1]})};
  visit_floating("rms_norm", x.dtype(), [&]<class T>() {
    norm_gradients<T, false>("rms_norm_gradients", eps, g.contiguous(), x.contiguous(), weight.contiguous(), out.x,
                             out.weight, {});
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
             const RmsGradients both =
                 grad_enabled() ? rms_gradients_by_ops(g, v, w, eps) : rms_gradients_by_kernel(g, v, w, eps, nx, nw);
             return Gradients{nx ? both.x : Tensor(), nw ? both.weight : Tensor()};
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
