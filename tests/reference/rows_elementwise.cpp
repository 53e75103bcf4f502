#include "ops/all_ops.h"

#include "reference/rows.h"

namespace lockstep::reference {
namespace {

Reduction reduction_of(const Call& c) {
  const auto name = c.arg<std::string>("reduction", "mean");
  return name == "mean"        ? Reduction::mean
         : name == "sum"       ? Reduction::sum
         : name == "batchmean" ? Reduction::batchmean
                               : Reduction::none;
}

}  // namespace

void add_elementwise_rows(Table& table) {
  const Table rows = {
      {"abs", [](const Call& c) { return abs(c[0]); }},
      {"addcdiv", [](const Call& c) { return addcdiv(c[0], c[1], c[2], c.number("value")); }},
      {"addcmul", [](const Call& c) { return addcmul(c[0], c[1], c[2], c.number("value")); }},
      {"fmod", [](const Call& c) { return fmod(c[0], c[1]); }},
      {"nan_to_num",
       [](const Call& c) { return nan_to_num(c[0], c.number("nan"), c.number("posinf"), c.number("neginf")); }},
      {"square", [](const Call& c) { return square(c[0]); }},
      {"reciprocal", [](const Call& c) { return reciprocal(c[0]); }},
      {"sqrt", [](const Call& c) { return sqrt(c[0]); }},
      {"rsqrt", [](const Call& c) { return rsqrt(c[0]); }},
      {"exp", [](const Call& c) { return exp(c[0]); }},
      {"expm1", [](const Call& c) { return expm1(c[0]); }},
      {"log", [](const Call& c) { return log(c[0]); }},
      {"log1p", [](const Call& c) { return log1p(c[0]); }},
      {"sin", [](const Call& c) { return sin(c[0]); }},
      {"cos", [](const Call& c) { return cos(c[0]); }},
      {"tanh", [](const Call& c) { return tanh(c[0]); }},
      {"sigmoid", [](const Call& c) { return sigmoid(c[0]); }},
      {"erf", [](const Call& c) { return erf(c[0]); }},
      {"relu", [](const Call& c) { return relu(c[0]); }},
      {"selu", [](const Call& c) { return selu(c[0]); }},
      {"silu", [](const Call& c) { return silu(c[0]); }},
      {"mish", [](const Call& c) { return mish(c[0]); }},
      {"hardswish", [](const Call& c) { return hardswish(c[0]); }},
      {"softplus", [](const Call& c) { return softplus(c[0]); }},
      {"elu", [](const Call& c) { return elu(c[0]); }},
      {"hardtanh", [](const Call& c) { return hardtanh(c[0]); }},
      {"neg", [](const Call& c) { return neg(c[0]); }},
      {"gelu",
       [](const Call& c) {
         return gelu(c[0], c.arg<std::string>("approximate", "none") == "tanh" ? GeluForm::tanh : GeluForm::exact);
       }},
      {"leaky_relu", [](const Call& c) { return leaky_relu(c[0], c.arg("negative_slope", 0.01)); }},
      {"clamp", [](const Call& c) { return clamp(c[0], {.min = c.number("min"), .max = c.number("max")}); }},
      {"pow", [](const Call& c) { return pow(c[0], c.number("exponent")); }},

      {"add", [](const Call& c) { return add(c[0], c[1]); }},
      {"sub", [](const Call& c) { return sub(c[0], c[1]); }},
      {"mul", [](const Call& c) { return mul(c[0], c[1]); }},
      {"div", [](const Call& c) { return div(c[0], c[1]); }},
      {"maximum", [](const Call& c) { return maximum(c[0], c[1]); }},
      {"minimum", [](const Call& c) { return minimum(c[0], c[1]); }},
      {"eq", [](const Call& c) { return eq(c[0], c[1]); }},
      {"lt", [](const Call& c) { return lt(c[0], c[1]); }},
      {"ge", [](const Call& c) { return ge(c[0], c[1]); }},
      {"where", [](const Call& c) { return where(c[0], c[1], c[2]); }},
      {"masked_fill", [](const Call& c) { return masked_fill(c[0], c[1], c.number("value")); }},

      {"mse_loss", [](const Call& c) { return mse_loss(c[0], c[1], {.reduction = reduction_of(c)}); }},
      {"l1_loss", [](const Call& c) { return l1_loss(c[0], c[1], {.reduction = reduction_of(c)}); }},
      {"smooth_l1_loss", [](const Call& c) { return smooth_l1_loss(c[0], c[1], {.reduction = reduction_of(c)}); }},
      {"binary_cross_entropy",
       [](const Call& c) { return binary_cross_entropy(c[0], c[1], {.reduction = reduction_of(c)}); }},
      {"binary_cross_entropy_with_logits",
       [](const Call& c) { return binary_cross_entropy_with_logits(c[0], c[1], {.reduction = reduction_of(c)}); }},
      {"kl_div", [](const Call& c) { return kl_div(c[0], c[1], {.reduction = reduction_of(c)}); }},
      {"nll_loss", [](const Call& c) { return nll_loss(c[0], c[1], {.reduction = reduction_of(c)}); }},
      {"huber_loss",
       [](const Call& c) {
         return huber_loss(c[0], c[1], {.reduction = reduction_of(c), .delta = c.number("delta")});
       }},
      {"cross_entropy",
       [](const Call& c) {
         return cross_entropy(c[0], c[1],
                              {.weight = c.arg("weighted", false) ? c[2] : Tensor(),
                               .ignore_index = c.arg<std::int64_t>("ignore_index", -100),
                               .reduction = reduction_of(c),
                               .label_smoothing = c.arg("label_smoothing", 0.0)});
       }},
  };
  table.insert(rows.begin(), rows.end());
}

}  // namespace lockstep::reference
