// layer_norm and group_norm: one kernel normalizes the rows, with weight and bias if they vary along the rows. (Those
// of group_norm do not; on a GPU it has its own kernels, ops/group_norm.h.)
#include <span>
#include <vector>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>

#include "autograd/record.h"
#include "kernels/rows/rows.h"
#include "ops/affine.h"
#include "ops/autocast.h"
#include "ops/group_norm.h"
#include "ops/norm_gradient.h"
#include "ops/reduced_dims.h"
#include "ops/wide.h"

namespace lockstep {
namespace {

using autograd::Gradients;
using autograd::needs_grad;
using autograd::record_many;
using autograd::Saved;

// y = (x - mean) / sqrt(variance + eps) * weight + bias. The row of x stands in for a missing weight or bias.
struct Affine {
  bool weighted, biased;
  template <class C, class AnyRow, class Index>
  LOCKSTEP_HD C scaled(C value, const AnyRow& weight, const Index& i) const {
    return weighted ? value * C(weight[i]) : value;
  }
  template <class C, class AnyRow, class Index>
  LOCKSTEP_HD C shifted(C value, const AnyRow& bias, const Index& i) const {
    return biased ? value + C(bias[i]) : value;
  }
};

template <class T>
struct Normalize {
  using C = ComputeType<T>;
  using Wide = Normalize<C>;
  C eps;
  Affine affine;
  template <class Team, class To, class From>
  LOCKSTEP_HD void operator()(const Team& team, To y, From from, From weight, From bias) const {
    const auto& x = team.kept(from);
    const auto value = [&](auto i) { return C(x[i]); };
    NormRowStats<C> of;
    find_scale<true>(
        of, x.length, eps, [&](const auto& term) { return sum_over(team, x.length, term); }, value);
    team.fill(y, [&](auto i) { return T(affine.shifted(affine.scaled(of.normal(value(i)), weight, i), bias, i)); });
  }
};

// x: [rows, length]; weight: [length].
struct NormProblem {
  const char* op;
  const char* node;
  Tensor x, weight;  // weight: may be undefined
  Affine affine;
  double eps;

  Tensor row_of(const Tensor& parameter) const {
    return parameter.defined() ? parameter.detach().expand(x.sizes()) : x;
  }
  Tensor make(const Shape& sizes, DType dtype) const { return make_tensor(*x.impl()->storage->device, sizes, dtype); }
};

struct NormGradients {
  Tensor x, weight, bias;
};

NormGradients gradients_by_ops(const NormProblem& of, const Tensor& narrow_g) {
  const Tensor g = widened(narrow_g), x = widened(of.x), h = of.affine.weighted ? g * widened(of.weight) : g;
  const Tensor centered = x - mean(x, {1}, true);
  const Tensor scale = rsqrt(mean(square(centered), {1}, true) + of.eps);
  const Tensor y = centered * scale;
  const DType dtype = narrow_g.dtype();
  return {(scale * (h - mean(h, {1}, true) - y * mean(h * y, {1}, true))).to(dtype),
          of.affine.weighted ? sum(g * y, {0}).to(dtype) : Tensor(),
          of.affine.biased ? sum(g, {0}).to(dtype) : Tensor()};
}

NormGradients gradients_by_kernel(const NormProblem& of, const Tensor& g, bool needs_x, bool needs_affine) {
  const DType dtype = of.x.dtype();
  const auto made = [&](bool needed, const Shape& sizes) { return needed ? of.make(sizes, dtype) : Tensor(); };
  const Shape length = {of.x.sizes()[1]};
  const NormGradients out = {made(needs_x, of.x.sizes()), made(needs_affine, length), made(needs_affine, length)};
  visit_floating(of.op, dtype, [&]<class T>() {
    const Tensor weight = of.weight.defined() ? of.weight.contiguous() : of.weight;
    norm_gradients<T, true>("normalize_gradients", of.eps, g.contiguous(), of.x.contiguous(), weight, out.x, out.weight,
                            out.bias);
  });
  return out;
}

Tensor normalize_rows(const NormProblem& of, const Tensor& bias) {
  Tensor out = of.make(of.x.sizes(), of.x.dtype());
  const auto row_of = [&](const Tensor& parameter) { return of.row_of(parameter); };
  visit_floating(of.op, of.x.dtype(), [&]<class T>() {
    map_rows<T, T, T, T>(of.op, 10, Normalize<T>{ComputeType<T>(of.eps), of.affine}, 1, out, of.x, row_of(of.weight),
                         row_of(bias));
  });
  std::vector<Tensor> inputs = {of.x};
  if (of.affine.weighted) inputs.push_back(of.weight);
  if (of.affine.biased) inputs.push_back(bias);
  if (!autograd::any_records(inputs)) return out;
  NormProblem kept = of;
  kept.x = kept.weight = Tensor();
  const bool needs_x = needs_grad(of.x), needs_weight = of.affine.weighted && needs_grad(of.weight),
             needs_bias = of.affine.biased && needs_grad(bias);
  record_many(of.node, std::span(&out, 1), inputs,
              [kept, x = Saved(of.x), weight = of.affine.weighted ? Saved(of.weight) : Saved(), needs_x, needs_weight,
               needs_bias](const Gradients& all) {
                NormProblem problem = kept;
                problem.x = x.get();
                problem.weight = weight.get();
                const NormGradients flows =
                    grad_enabled() ? gradients_by_ops(problem, all[0])
                                   : gradients_by_kernel(problem, all[0], needs_x, needs_weight || needs_bias);
                Gradients gradients = {needs_x ? flows.x : Tensor()};
                if (kept.affine.weighted) gradients.push_back(needs_weight ? flows.weight : Tensor());
                if (kept.affine.biased) gradients.push_back(needs_bias ? flows.bias : Tensor());
                return gradients;
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
  if (x.numel() == 0) return affine(x.clone(), weight, bias);
  const auto flat = [&](const Tensor& parameter) {
    return parameter.defined() ? parameter.reshape({length}) : Tensor();
  };
  const NormProblem problem{"layer_norm",
                            "LayerNorm",
                            x.reshape({x.numel() / length, length}),
                            flat(weight),
                            {weight.defined(), bias.defined()},
                            eps};
  return normalize_rows(problem, flat(bias)).reshape(x.sizes());
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
  if (x.impl()->storage->device->backend.launches_grids()) return group_norm_by_grids(x, groups, weight, bias, eps);
  const NormProblem problem{"group_norm", "GroupNorm", x.reshape({batch * groups, x.numel() / (batch * groups)}),
                            {},           {},          eps};
  return affine(normalize_rows(problem, {}).reshape(x.sizes()), per_channel(weight, x.dim()),
                per_channel(bias, x.dim()));
}

}  // namespace lockstep
