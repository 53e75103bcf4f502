// layer_norm and rms_norm: one kernel normalizes the rows, with weight and bias, and one computes the gradients.
#include <limits>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include "kernels/rows/rows.h"
#include "ops/add_norm.h"
#include "ops/affine.h"
#include "ops/autocast.h"
#include "ops/dtypes.h"
#include "ops/norm_gradient.h"
#include "ops/normalize_row.h"
#include "ops/norms.h"

namespace lockstep {
namespace {

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
    compute(norm.gradient, eps, dense_g, dense_x, dense_weight, out.x, out.weight, out.bias, {});
  });
  return out;
}

// Normalizes over the last dimensions of x, whose sizes are `normalized`. `result`: the dtype of the result, if it is
// that of an autocast region; weight and bias are then float32.
Tensor normalize_last(const RowNorm& norm, const Tensor& x, const Shape& normalized, const Tensor& weight,
                      const Tensor& bias, double eps, std::optional<DType> result = {}) {
  const int outer = x.dim() - normalized.rank();
  bool fits = outer >= 0 && !normalized.empty();
  for (int i = 0; fits && i < normalized.rank(); ++i) fits = x.sizes()[outer + i] == normalized[i];
  if (!fits) throw ShapeError(text("[", norm.op, "] expected x to end in the sizes ", normalized, ", got ", x.sizes()));
  const DType of_parameters = result ? kFloat32 : x.dtype();
  check_affine(norm.op, x, weight, normalized, of_parameters);
  check_affine(norm.op, x, bias, normalized, of_parameters);
  if (x.numel() == 0) return affine(x.clone(), weight, bias).to(result.value_or(x.dtype()));
  const std::int64_t length = normalized.elements();
  const auto flat = [&](const Tensor& parameter) {
    return parameter.defined() ? parameter.reshape({length}) : Tensor();
  };
  const Tensor scale =
      weight.defined() || norm.centered ? flat(weight) : ones({length}, {.dtype = of_parameters, .device = x.device()});
  if (result)
    return add_and_normalize(norm, x.reshape({x.numel() / length, length}).contiguous(), {}, scale, flat(bias), eps,
                             *result, x.sizes())
        .norm;
  return normalize_rows(norm, x.reshape({x.numel() / length, length}), scale, flat(bias), eps).reshape(x.sizes());
}

// The norm in an autocast region: computed in float32 from 16 bits or float32, and written in the region's dtype, which
// is what the products behind a norm take.
Tensor normalize_last_in(DType region, const RowNorm& norm, const Tensor& x, const Shape& normalized,
                         const Tensor& weight, const Tensor& bias, double eps) {
  if (x.dtype() == kFloat64) return normalize_last(norm, x, normalized, weight, bias, eps);
  const auto wide = [](const Tensor& parameter) { return parameter.defined() ? widened(parameter) : parameter; };
  return normalize_last(norm, has_add_norm(x.dtype(), region) ? x : widened(x), normalized, wide(weight), wide(bias),
                        eps, region);
}

constexpr RowNorm kLayerNorm = {"layer_norm", "LayerNorm", "normalize_gradients"};
constexpr RowNorm kRmsNorm = {"rms_norm", "RmsNorm", "rms_norm_gradients", false};

}  // namespace

NormGradients norm_gradients_by_ops(const Tensor& narrow_g, const Tensor& narrow_x, const Tensor& weight,
                                    const NormNeeds& needs, const NormDims& dims, bool is_centered, double eps,
                                    std::optional<DType> of_parameters) {
  const auto mean_of = [&](const Tensor& values) { return mean(values, dims.of_row, true); };
  const Tensor g = widened(narrow_g), x = widened(narrow_x), h = weight.defined() ? g * widened(weight) : g;
  const Tensor centered = is_centered ? x - mean_of(x) : x;
  const Tensor scale = rsqrt(mean_of(square(centered)) + eps), y = centered * scale;
  const DType dtype = narrow_x.dtype(), of_affine = of_parameters.value_or(dtype);
  const Tensor of_x = is_centered ? scale * (h - mean_of(h) - y * mean_of(h * y)) : scale * (h - y * mean_of(h * y));
  return {of_x.to(dtype), needs.weight ? sum(g * y, dims.of_sums).to(of_affine) : Tensor(),
          needs.bias ? sum(g, dims.of_sums).to(of_affine) : Tensor()};
}

Tensor normalize_rows(const RowNorm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  Tensor out = make_tensor(*x.impl()->storage->device, x.sizes(), x.dtype());
  const auto row_of = [&](const Tensor& parameter) {
    return parameter.defined() ? parameter.detach().expand(x.sizes()) : x;
  };
  const RowAffine affine = {weight.defined(), bias.defined()};
  visit_floating(norm.op, x.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    if (norm.centered)
      map_rows<T, T, T, T>(norm.op, 10, NormalizeRow<T, true>{C(eps), affine}, 1, out, x, row_of(weight), row_of(bias));
    else
      map_rows<T, T, T>(norm.op, 5, NormalizeRow<T, false>{C(eps), affine}, 1, out, x, row_of(weight));
  });
  record_norm(norm.node, out, x, weight, bias,
              [norm, eps](const Tensor& g, const Tensor& saved_x, const Tensor& saved_weight, const NormNeeds& needs) {
                if (!grad_enabled()) return row_gradients(norm, g, saved_x, saved_weight, needs, eps);
                return norm_gradients_by_ops(g, saved_x, saved_weight, needs, {{1}, {0}}, norm.centered, eps);
              });
  return out;
}

Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight, const Tensor& bias, double eps) {
  check_floating("layer_norm", x);
  if (const auto cast = autocast::product())
    return normalize_last_in(cast.dtype(), kLayerNorm, x, normalized, weight, bias, eps);
  return normalize_last(kLayerNorm, x, normalized, weight, bias, eps);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized, const Tensor& weight, std::optional<double> eps) {
  check_floating("rms_norm", x);
  const double least =
      x.dtype() == kFloat64 ? std::numeric_limits<double>::epsilon() : double(std::numeric_limits<float>::epsilon());
  if (const auto cast = autocast::product())
    return normalize_last_in(cast.dtype(), kRmsNorm, x, normalized, weight, {}, eps.value_or(least));
  return normalize_last(kRmsNorm, x, normalized, weight, {}, eps.value_or(least));
}

}  // namespace lockstep
