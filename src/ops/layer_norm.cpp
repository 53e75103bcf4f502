// layer_norm and group_norm: rows are normalized in one kernel, with weight and bias where they lie along the rows.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>

#include "autograd/record.h"
#include "ops/affine.h"
#include "ops/autocast.h"
#include "ops/reduced_dims.h"
#include "ops/wide.h"
#include "runtime/host/parallel.h"
#include "tensor/kernels/rows.h"

namespace lockstep {
namespace {

using autograd::Gradients;
using autograd::needs_grad;
using autograd::record_many;
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

// y = (x - mean) / sqrt(variance + eps) * weight + bias. Where there is no weight or no bias, its row is x's.
struct Affine {
  bool weighted, biased;
  template <class C, class T>
  LOCKSTEP_HD C scaled(C value, const Row<const T>& weight, std::int64_t i) const {
    return weighted ? value * C(weight[i]) : value;
  }
  template <class C, class T>
  LOCKSTEP_HD C shifted(C value, const Row<const T>& bias, std::int64_t i) const {
    return biased ? value + C(bias[i]) : value;
  }
};

template <class T>
struct Normalize {
  using C = ComputeType<T>;
  C eps;
  Affine affine;
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, Row<T> y, Row<const T> x, Row<const T> weight,
                              Row<const T> bias) const {
    const Moments<C> of = moments(team, x, eps);
    team.each(x.length, [&](std::int64_t i) {
      y[i] = T(affine.shifted(affine.scaled((C(x[i]) - of.mean) * of.scale, weight, i), bias, i));
    });
  }
};

// scale (h - mean(h) - y mean(h y)), h = g weight, the statistics and y computed again from x.
template <class T>
struct NormalizeGradient {
  using C = ComputeType<T>;
  C eps;
  Affine affine;
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, Row<T> out, Row<const T> g, Row<const T> x, Row<const T> weight) const {
    const Moments<C> of = moments(team, x, eps);
    const auto [total, along] = sum_over(team, x.length, [&](std::int64_t i) {
      const C h = affine.scaled(C(g[i]), weight, i);
      return TwoSums<C>{h, h * (C(x[i]) - of.mean) * of.scale};
    });
    const C mean = total / C(x.length), slope = along / C(x.length);
    team.each(x.length, [&](std::int64_t i) {
      out[i] = T(of.scale * (affine.scaled(C(g[i]), weight, i) - mean - (C(x[i]) - of.mean) * of.scale * slope));
    });
  }
};

// facts [2]: the mean and the scale of a row.
template <class T>
struct Statistics {
  using C = ComputeType<T>;
  C eps;
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, Row<C> facts, Row<const T> x) const {
    const Moments<C> of = moments(team, x, eps);
    if (!team.first()) return;
    facts[0] = of.mean;
    facts[1] = of.scale;
  }
};

// What flows into weight and bias, [length]: the sums over the rows of g y, and of g. First of some rows at a time.
template <class T>
struct AffineGradient {
  using C = ComputeType<T>;
  static constexpr std::int64_t kRows = kChain;

  const T *g, *x;  // [rows, length], dense
  const C* facts;  // [rows, 2]
  C* partial;      // [pieces, 2, length]
  T *weight, *bias;
  std::int64_t rows, length;

  static std::int64_t pieces_of(std::int64_t rows) { return (rows + kRows - 1) / kRows; }

  void operator()(const KernelContext& context) const {
    const std::int64_t grain = (1 << 15) / (kRows * length) + 1;
    host::vectorized_for(context, pieces_of(rows), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        C *const products = partial + 2 * piece * length, *const sums = products + length;
        std::fill_n(products, 2 * length, C(0));
        for (std::int64_t r = piece * kRows; r < std::min(rows, (piece + 1) * kRows); ++r) {
          const T *const g_row = g + r * length, *const x_row = x + r * length;
          const C mean = facts[2 * r], scale = facts[2 * r + 1];
#pragma GCC ivdep
          for (std::int64_t c = 0; c < length; ++c) {
            products[c] += C(g_row[c]) * ((C(x_row[c]) - mean) * scale);
            sums[c] += C(g_row[c]);
          }
        }
      }
    });
    host::vectorized_for(context, length, (1 << 14) / pieces_of(rows) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) combine(c);
    });
  }

  int passes() const { return 2; }
  std::int64_t items() const { return pieces_of(rows) * length; }
  LOCKSTEP_HD void item(int, bool last, std::int64_t i) const {
    if (last) {
      if (i < length) combine(i);
      return;
    }
    const std::int64_t piece = i / length, c = i % length;
    C product = 0, sum = 0;
    for (std::int64_t r = piece * kRows; r < rows && r < (piece + 1) * kRows; ++r) {
      product += C(g[r * length + c]) * ((C(x[r * length + c]) - facts[2 * r]) * facts[2 * r + 1]);
      sum += C(g[r * length + c]);
    }
    partial[2 * piece * length + c] = product;
    partial[(2 * piece + 1) * length + c] = sum;
  }

 private:
  LOCKSTEP_HD void combine(std::int64_t c) const {
    double product = 0, sum = 0;
    for (std::int64_t piece = 0; piece * kRows < rows; ++piece) {
      product += double(partial[2 * piece * length + c]);
      sum += double(partial[(2 * piece + 1) * length + c]);
    }
    weight[c] = T(product);
    bias[c] = T(sum);
  }
};

// x: [rows, length]; weight: [length].
struct Problem {
  const char* op;
  const char* node;
  Tensor x, weight;  // undefined where there is none
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

NormGradients gradients_by_ops(const Problem& of, const Tensor& narrow_g) {
  const Tensor g = widened(narrow_g), x = widened(of.x), h = of.affine.weighted ? g * widened(of.weight) : g;
  const Tensor centered = x - mean(x, {1}, true);
  const Tensor scale = rsqrt(mean(square(centered), {1}, true) + of.eps);
  const Tensor y = centered * scale;
  const DType dtype = narrow_g.dtype();
  return {(scale * (h - mean(h, {1}, true) - y * mean(h * y, {1}, true))).to(dtype),
          of.affine.weighted ? sum(g * y, {0}).to(dtype) : Tensor(),
          of.affine.biased ? sum(g, {0}).to(dtype) : Tensor()};
}

Tensor input_gradient(const Problem& of, const Tensor& g) {
  Tensor out = of.make(of.x.sizes(), of.x.dtype());
  visit_floating(of.op, of.x.dtype(), [&]<class T>() {
    map_rows<T, T, T, T>("normalize_gradient", 14, NormalizeGradient<T>{ComputeType<T>(of.eps), of.affine}, 1, out, g,
                         of.x, of.row_of(of.weight));
  });
  return out;
}

template <class T>
T* data_of(const Tensor& tensor) {
  return reinterpret_cast<T*>(tensor.impl()->data());
}

// Of weight and bias.
NormGradients affine_gradients(const Problem& of, const Tensor& given_g) {
  const Tensor g = given_g.contiguous(), x = of.x.contiguous();
  const std::int64_t rows = x.sizes()[0], length = x.sizes()[1];
  const DType wide = wide_dtype(x.dtype());
  const Tensor facts = of.make({rows, 2}, wide), weight = of.make({length}, x.dtype()),
               bias = of.make({length}, x.dtype());
  visit_floating(of.op, x.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    map_rows<C, T>("statistics", 5, Statistics<T>{C(of.eps)}, 1, facts, x);
    const Tensor partial = of.make({AffineGradient<T>::pieces_of(rows), 2, length}, wide);
    const AffineGradient<T> kernel{
        data_of<T>(g), data_of<T>(x), data_of<C>(facts), data_of<C>(partial), data_of<T>(weight), data_of<T>(bias),
        rows,          length};
    launch("normalize_affine_gradient", 5 * double(rows * length), std::array{&partial, &weight, &bias},
           std::array{&g, &x, &facts}, kernel);
  });
  return {{}, of.affine.weighted ? weight : Tensor(), of.affine.biased ? bias : Tensor()};
}

Tensor normalize_rows(const Problem& of, const Tensor& bias) {
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
  Problem kept = of;
  kept.x = kept.weight = Tensor();
  const bool needs_x = needs_grad(of.x), needs_weight = of.affine.weighted && needs_grad(of.weight),
             needs_bias = of.affine.biased && needs_grad(bias);
  record_many(of.node, std::span(&out, 1), inputs,
              [kept, x = Saved(of.x), weight = of.affine.weighted ? Saved(of.weight) : Saved(), needs_x, needs_weight,
               needs_bias](const Gradients& all) {
                Problem problem = kept;
                problem.x = x.get();
                problem.weight = weight.get();
                NormGradients flows;
                if (grad_enabled()) {
                  flows = gradients_by_ops(problem, all[0]);
                } else {
                  if (needs_weight || needs_bias) flows = affine_gradients(problem, all[0]);
                  if (needs_x) flows.x = input_gradient(problem, all[0]);
                }
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
  const Problem problem{"layer_norm",
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
  const Problem problem{"group_norm", "GroupNorm", x.reshape({batch * groups, x.numel() / (batch * groups)}),
                        {},           {},          eps};
  return affine(normalize_rows(problem, {}).reshape(x.sizes()), per_channel(weight, x.dim()),
                per_channel(bias, x.dim()));
}

}  // namespace lockstep
