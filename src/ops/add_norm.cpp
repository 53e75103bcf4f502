// add_layer_norm, and the norms of autocast regions: one kernel adds and normalizes, and one computes the gradients.
#include "ops/add_norm.h"

#include <lockstep/autograd/autocast.h>
#include <lockstep/ops/arithmetic.h>

#include "ops/add_norm_kernel.h"
#include "ops/dtypes.h"
#include "ops/norm_gradient.h"

namespace lockstep {
namespace {

template <class Visitor>
void visit_add_norm(DType x, DType result, const Visitor& visitor) {
  switch (result) {
    case kBFloat16:
      return x == kFloat32 ? visitor.template operator()<float, BFloat16>()
                           : visitor.template operator()<BFloat16, BFloat16>();
    case kFloat16:
      return x == kFloat32 ? visitor.template operator()<float, Half>() : visitor.template operator()<Half, Half>();
    default: return visitor.template operator()<float, float>();
  }
}

struct Needs {
  bool x, branch, weight, bias;
};
// The gradients of x, branch, weight and bias.
struct AddNormGradients {
  Tensor x, branch, weight, bias;
};

AddNormGradients composed_gradients(const RowNorm& norm, const Tensor& g_sum, const Tensor& g, const Tensor& sum,
                                    const Tensor& weight, const Needs& needs, double eps) {
  const NormGradients of = norm_gradients_by_ops(g, sum, weight, {needs.x || needs.branch, needs.weight, needs.bias},
                                                 {{1}, {0}}, norm.centered, eps, kFloat32);
  const Tensor of_sum = g_sum.defined() ? of.x + g_sum : of.x;
  return {of_sum, needs.branch ? of_sum.to(g.dtype()) : Tensor(), of.weight, of.bias};
}

// `has_branch`: sum is x + branch.
AddNormGradients fused_gradients(const RowNorm& norm, const Tensor& g_sum, const Tensor& g, const Tensor& sum,
                                 const Tensor& weight, const Needs& needs, bool has_branch, double eps) {
  DeviceState& device = *sum.impl()->storage->device;
  const auto made = [&](bool needed, const Shape& sizes, DType dtype) {
    return needed ? make_tensor(device, sizes, dtype) : Tensor();
  };
  const bool affine = needs.weight || needs.bias, rounds_branch = needs.branch && g.dtype() != sum.dtype();
  const Shape length = {sum.sizes()[1]};
  AddNormGradients of = {made(needs.x || needs.branch, sum.sizes(), sum.dtype()),
                         made(rounds_branch, sum.sizes(), g.dtype()), made(affine, length, kFloat32),
                         made(affine && norm.centered, length, kFloat32)};
  const Tensor dense_g = g.contiguous(), dense_weight = weight.defined() ? weight.contiguous() : weight;
  const NormBranch branch = {g_sum.defined() ? g_sum.contiguous() : g_sum, of.branch};
  visit_add_norm(sum.dtype(), g.dtype(), [&]<class X, class Y>() {
    const auto compute = [&](auto function) {
      function(norm.gradient, eps, dense_g, sum, dense_weight, of.x, of.weight, of.bias, branch);
    };
    if (has_branch)  // a centered norm
      compute(norm_gradients<Y, true, X, float, true>);
    else if constexpr (kNarrow<Y>)
      norm.centered ? compute(norm_gradients<Y, true, X, float>) : compute(norm_gradients<Y, false, X, float>);
  });
  if (needs.branch && !rounds_branch) of.branch = of.x;
  return of;
}

}  // namespace

bool has_add_norm(DType x, DType result) {
  const bool is_known = result == kFloat32 || result == kBFloat16 || result == kFloat16;
  return is_known && (x == kFloat32 || x == result);
}

SumAndNorm add_and_normalize(const RowNorm& norm, const Tensor& x, const Tensor& branch, const Tensor& weight,
                             const Tensor& bias, double eps, DType result, const Shape& sizes) {
  DeviceState& device = *x.impl()->storage->device;
  const bool has_branch = branch.defined(), weighted = weight.defined(), biased = bias.defined();
  const std::int64_t rows = x.sizes()[0], length = x.sizes()[1];
  std::vector<Tensor> outputs;
  if (has_branch) outputs.push_back(make_tensor(device, sizes, x.dtype()));
  outputs.push_back(make_tensor(device, sizes, result));
  const Tensor none, &sum = has_branch ? outputs[0] : none, &y = outputs.back();
  const Tensor dense_weight = weighted ? weight.detach().contiguous() : weight,
               dense_bias = biased ? bias.detach().contiguous() : bias;
  visit_add_norm(x.dtype(), result, [&]<class X, class Y>() {
    const auto run = [&]<bool kCentered>() {
      const AddNormKernel<X, Y, kCentered> kernel = {float(eps),
                                                     data_or_null<X>(x),
                                                     data_or_null<Y>(branch),
                                                     data_or_null<float>(dense_weight),
                                                     data_or_null<float>(dense_bias),
                                                     data_or_null<X>(sum),
                                                     data_or_null<Y>(y),
                                                     rows,
                                                     length};
      launch(norm.op, 11 * double(rows * length), std::array{&sum, &y},
             std::array{&x, &branch, &dense_weight, &dense_bias}, kernel);
    };
    norm.centered ? run.template operator()<true>() : run.template operator()<false>();
  });
  std::vector<Tensor> inputs = {x};
  for (const Tensor* const more : {&branch, &weight, &bias})
    if (more->defined()) inputs.push_back(*more);
  if (autograd::any_records(inputs)) {
    const Needs needs = {needs_grad(x), has_branch && needs_grad(branch), weighted && needs_grad(weight),
                         biased && needs_grad(bias)};
    autograd::record_many(
        norm.node, std::span(outputs), inputs,
        [norm, needs, has_branch, weighted, biased, eps, result, rows, length,
         saved = has_branch ? Saved(sum, kOutput) : Saved(x), saved_weight = Saved(weight)](const Gradients& gs) {
          const auto in_rows = [&](const Tensor& of) { return of.defined() ? of.reshape({rows, length}) : of; };
          const Tensor g_sum = has_branch ? in_rows(gs[0]) : Tensor(), g = in_rows(gs.back());
          AddNormGradients of;
          if (!g.defined())
            of = {g_sum, needs.branch ? g_sum.to(result) : Tensor(), {}, {}};
          else if (grad_enabled())
            of = composed_gradients(norm, g_sum, g, in_rows(saved.get()), saved_weight.get(), needs, eps);
          else
            of = fused_gradients(norm, g_sum, g, in_rows(saved.get()), saved_weight.get(), needs, has_branch, eps);
          Gradients gradients = {needs.x ? of.x : Tensor()};
          if (has_branch) gradients.push_back(needs.branch ? of.branch : Tensor());
          if (weighted) gradients.push_back(needs.weight ? of.weight : Tensor());
          if (biased) gradients.push_back(needs.bias ? of.bias : Tensor());
          return gradients;
        });
    if (has_branch) autograd::gradient_edge(sum).node->inner_output = 0;
  }
  return {sum, outputs.back()};
}

SumAndNorm add_layer_norm(const Tensor& x, const Tensor& branch, const Shape& normalized, const Tensor& weight,
                          const Tensor& bias, double eps) {
  check_same_device("add_layer_norm", x, branch);
  const std::optional<DType> region = autocast_dtype();
  const DType result = region.value_or(x.dtype());
  const auto fits = [&](const Tensor& parameter) {
    return !parameter.defined() || (parameter.sizes() == normalized && parameter.device() == x.device() &&
                                    (region ? wide_dtype(parameter.dtype()) : parameter.dtype()) == kFloat32);
  };
  const int outer = x.dim() - normalized.rank();
  // Both results have one node, so the sum would need a gradient if only a weight does.
  const auto is_trained = [](const Tensor& parameter) { return parameter.defined() && needs_grad(parameter); };
  const bool fits_graph = needs_grad(x) || needs_grad(branch) || !(is_trained(weight) || is_trained(bias));
  bool is_fused = outer >= 0 && !normalized.empty() && x.numel() > 0 && x.sizes() == branch.sizes() &&
                  (region || result == kFloat32) && has_add_norm(x.dtype(), result) && branch.dtype() == result &&
                  fits(weight) && fits(bias) && fits_graph;
  for (int i = 0; is_fused && i < normalized.rank(); ++i) is_fused = x.sizes()[outer + i] == normalized[i];
  if (!is_fused) {
    const Tensor sum = x + branch;
    return {sum, layer_norm(sum, normalized, weight, bias, eps)};
  }
  const std::int64_t length = normalized.elements();
  const auto rows_of = [&](const Tensor& of) { return of.reshape({x.numel() / length, length}).contiguous(); };
  const auto flat = [&](const Tensor& parameter) {
    return parameter.defined() ? widened(parameter).reshape({length}) : parameter;
  };
  return add_and_normalize({"add_layer_norm", "AddLayerNorm", "add_layer_norm_gradients"}, rows_of(x), rows_of(branch),
                           flat(weight), flat(bias), eps, result, x.sizes());
}

}  // namespace lockstep
