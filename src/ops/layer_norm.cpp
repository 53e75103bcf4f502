// layer_norm and rms_norm: one kernel normalizes the rows, with weight and bias, and one computes the gradients.
#include <limits>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include "kernels/rows/rows.h"
#include "ops/affine.h"
#include "ops/autocast.h"
#include "ops/dtypes.h"
#include "ops/norm_gradient.h"
#include "ops/norms.h"

namespace lockstep {
namespace {

// y = (x - mean) / sqrt(variance + eps) * weight + bias. If the weight or bias is missing, the row of x is read in its
// place and not used, because GCC 14 does not vectorize a loop that reads only under a condition.
struct Affine {
  bool weighted, biased;
  template <class C, class AnyRow, class Index>
  LOCKSTEP_HD C scaled(C value, const AnyRow& weight, const Index& i) const {
    const C w = C(weight[i]);
    return weighted ? value * w : value;
  }
  template <class C, class AnyRow, class Index>
  LOCKSTEP_HD C shifted(C value, const AnyRow& bias, const Index& i) const {
    const C b = C(bias[i]);
    return biased ? value + b : value;
  }
};

// rms_norm is not centered: it uses 0 as the mean, always has a weight, and has no bias.
template <class T, bool kCentered>
struct Normalize {
  using C = ComputeType<T>;
  using Wide = Normalize<C, kCentered>;
  C eps;
  Affine affine;
  template <class Team, class To, class From, class... Bias>
  requires(sizeof...(Bias) == int(kCentered)) LOCKSTEP_HD void operator()(const Team& team, To y, From from,
                                                                          From weight, Bias... bias) const {
    const auto& x = team.kept(from);
    const auto value = [&](auto i) { return C(x[i]); };
    NormRowStats<C> of;
    find_scale<kCentered>(
        of, x.length, eps, [&](const auto& term) LOCKSTEP_INLINE { return sum_over(team, x.length, term); }, value);
    team.fill(y, [&](auto i) {
      const C scaled = affine.scaled(of.normal(value(i)), weight, i);
      if constexpr (kCentered)
        return T(affine.shifted(scaled, bias..., i));
      else
        return T(scaled);
    });
  }
};

NormGradients row_gradients(const RowNorm& norm, const Tensor& g, const Tensor& x, const Tensor& weight,
                            const NormNeeds& needs, double eps) {
  const auto made = [&](bool needed, const Shape& sizes) {
    return needed ? make_tensor(*x.impl()->storage->device, sizes, x.dtype()) : Tensor();
  };
  const bool affine = needs.weight || needs.bias;
  const Shape length = {x.sizes()[1]};
  const NormGradients out = {made(needs.x, x.sizes()), made(affine, length), made(affine && norm.centered, length)};
  const Tensor dense_g = g.contiguous(), dense_x = x.contiguous();
  const Tensor dense_weight = weight.defined() ? weight.contiguous() : weight;
  visit_floating(norm.op, x.dtype(), [&]<class T>() {
    const auto compute = norm.centered ? norm_gradients<T, true> : norm_gradients<T, false>;
    compute(norm.gradient, eps, dense_g, dense_x, dense_weight, out.x, out.weight, out.bias);
  });
  return out;
}

// Normalizes over the last dimensions of x, whose sizes are `normalized`.
Tensor normalize_last(const RowNorm& norm, const Tensor& x, const Shape& normalized, const Tensor& weight,
                      const Tensor& bias, double eps) {
  const int outer = x.dim() - normalized.rank();
  bool fits = outer >= 0 && !normalized.empty();
  for (int i = 0; fits && i < normalized.rank(); ++i) fits = x.sizes()[outer + i] == normalized[i];
  if (!fits) throw ShapeError(text("[", norm.op, "] expected x to end in the sizes ", normalized, ", got ", x.sizes()));
  check_affine(norm.op, x, weight, normalized);
  check_affine(norm.op, x, bias, normalized);
  if (x.numel() == 0) return affine(x.clone(), weight, bias);
  const std::int64_t length = normalized.elements();
  const auto flat = [&](const Tensor& parameter) {
    return parameter.defined() ? parameter.reshape({length}) : Tensor();
  };
  const Tensor scale = weight.defined() || norm.centered ? flat(weight) : ones({length}, x.options());
  return normalize_rows(norm, x.reshape({x.numel() / length, length}), scale, flat(bias), eps).reshape(x.sizes());
}

}  // namespace

NormGradients norm_gradients_by_ops(const Tensor& narrow_g, const Tensor& narrow_x, const Tensor& weight,
                                    const NormNeeds& needs, const NormDims& dims, bool is_centered, double eps) {
  const auto mean_of = [&](const Tensor& values) { return mean(values, dims.of_row, true); };
  const Tensor g = widened(narrow_g), x = widened(narrow_x), h = weight.defined() ? g * widened(weight) : g;
  const Tensor centered = is_centered ? x - mean_of(x) : x;
  const Tensor scale = rsqrt(mean_of(square(centered)) + eps), y = centered * scale;
  const DType dtype = narrow_g.dtype();
  const Tensor of_x = is_centered ? scale * (h - mean_of(h) - y * mean_of(h * y)) : scale * (h - y * mean_of(h * y));
  return {of_x.to(dtype), needs.weight ? sum(g * y, dims.of_sums).to(dtype) : Tensor(),
          needs.bias ? sum(g, dims.of_sums).to(dtype) : Tensor()};
}

Tensor normalize_rows(const RowNorm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  Tensor out = make_tensor(*x.impl()->storage->device, x.sizes(), x.dtype());
  const auto row_of = [&](const Tensor& parameter) {
    return parameter.defined() ? parameter.detach().expand(x.sizes()) : x;
  };
  const Affine affine = {weight.defined(), bias.defined()};
  visit_floating(norm.op, x.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    if (norm.centered)
      map_rows<T, T, T, T>(norm.op, 10, Normalize<T, true>{C(eps), affine}, 1, out, x, row_of(weight), row_of(bias));
    else
      map_rows<T, T, T>(norm.op, 5, Normalize<T, false>{C(eps), affine}, 1, out, x, row_of(weight));
  });
  record_norm(norm.node, out, x, weight, bias,
              [norm, eps](const Tensor& g, const Tensor& saved_x, const Tensor& saved_weight, const NormNeeds& needs) {
                if (!grad_enabled()) return row_gradients(norm, g, saved_x, saved_weight, needs, eps);
                return norm_gradients_by_ops(g, saved_x, saved_weight, needs, {{1}, {0}}, norm.centered, eps);
              });
  return out;
}

Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight, const Tensor& bias, double eps) {
  if (const auto cast = autocast::wide()) return layer_norm(cast(x), normalized, cast(weight), cast(bias), eps);
  check_floating("layer_norm", x);
  return normalize_last({"layer_norm", "LayerNorm", "normalize_gradients"}, x, normalized, weight, bias, eps);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized, const Tensor& weight, std::optional<double> eps) {
  if (const auto cast = autocast::wide()) return rms_norm(cast(x), normalized, cast(weight), eps);
  check_floating("rms_norm", x);
  const double least =
      x.dtype() == kFloat64 ? std::numeric_limits<double>::epsilon() : double(std::numeric_limits<float>::epsilon());
  return normalize_last({"rms_norm", "RmsNorm", "rms_norm_gradients", false}, x, normalized, weight, {},
                        eps.value_or(least));
}

}  // namespace lockstep
