// Gradient checks of arithmetic, activations and losses.
#include "ops/all_ops.h"
#include "ops/gradcheck_cases.h"

namespace lockstep {

std::vector<GradientCase> elementwise_gradient_cases() {
  using Inputs = std::vector<Tensor>;
  return {
      {"add", [](const Inputs& x) { return add(x[0], x[1], 0.5); }, {{2, 3}, {3}}},
      {"sub", [](const Inputs& x) { return x[0] - x[1]; }, {{2, 1}, {3}}},
      {"mul", [](const Inputs& x) { return x[0] * x[1]; }, {{2, 3}, {2, 1}}},
      {"mul_by_itself", [](const Inputs& x) { return x[0] * x[0]; }, {{2, 3}}},
      {"div", [](const Inputs& x) { return x[0] / x[1]; }, {{2, 3}, {3}}, 0.5, 2},
      {"numbers", [](const Inputs& x) { return (2 - x[0] * 3) / 4 + 1 / (x[0] + 5); }, {{2, 3}}},
      {"maximum", [](const Inputs& x) { return maximum(x[0], x[1]); }, {{2, 3}, {3}}},
      {"minimum", [](const Inputs& x) { return minimum(x[0], x[1]); }, {{2, 3}, {}}},
      {"atan2", [](const Inputs& x) { return atan2(x[0], x[1]); }, {{2, 3}, {3}}, 0.5, 2},
      {"hypot", [](const Inputs& x) { return hypot(x[0], x[1]); }, {{2, 3}, {3}}, 0.5, 2},
      {"lerp", [](const Inputs& x) { return lerp(x[0], x[1], x[2]); }, {{2, 3}, {3}, {2, 1}}},
      {"lerp_by_a_number", [](const Inputs& x) { return lerp(x[0], x[1], 0.75); }, {{2, 3}, {3}}},
      {"pow", [](const Inputs& x) { return pow(x[0], x[1]); }, {{2, 3}, {3}}, 0.5, 2},
      {"pow_of_number", [](const Inputs& x) { return pow(2, x[0]); }, {{2, 3}}},
      {"where", [](const Inputs& x) { return where(x[0].detach() > 0, x[0], x[1]); }, {{2, 3}, {3}}},
      {"masked_fill", [](const Inputs& x) { return masked_fill(x[0], x[0].detach() > 0, 3); }, {{2, 3}}},

      {"neg", [](const Inputs& x) { return neg(x[0]); }, {{3, 4}}},
      {"abs", [](const Inputs& x) { return abs(x[0]); }, {{3, 4}}},
      {"square", [](const Inputs& x) { return square(x[0]); }, {{3, 4}}},
      {"reciprocal", [](const Inputs& x) { return reciprocal(x[0]); }, {{3, 4}}, 0.5, 2},
      {"sqrt", [](const Inputs& x) { return sqrt(x[0]); }, {{3, 4}}, 0.5, 2},
      {"rsqrt", [](const Inputs& x) { return rsqrt(x[0]); }, {{3, 4}}, 0.5, 2},
      {"log", [](const Inputs& x) { return log(x[0]); }, {{3, 4}}, 0.5, 2},
      {"exp", [](const Inputs& x) { return exp(x[0]); }, {{3, 4}}},
      {"expm1", [](const Inputs& x) { return expm1(x[0]); }, {{3, 4}}},
      {"sin", [](const Inputs& x) { return sin(x[0]); }, {{3, 4}}},
      {"cos", [](const Inputs& x) { return cos(x[0]); }, {{3, 4}}},
      {"tanh", [](const Inputs& x) { return tanh(x[0]); }, {{3, 4}}},
      {"sigmoid", [](const Inputs& x) { return sigmoid(x[0]); }, {{3, 4}}},
      {"erf", [](const Inputs& x) { return erf(x[0]); }, {{3, 4}}},
      {"log1p", [](const Inputs& x) { return log1p(x[0]); }, {{3, 4}}, -0.5, 2},
      {"log2", [](const Inputs& x) { return log2(x[0]); }, {{3, 4}}, 0.5, 2},
      {"log10", [](const Inputs& x) { return log10(x[0]); }, {{3, 4}}, 0.5, 2},
      {"tan", [](const Inputs& x) { return tan(x[0]); }, {{3, 4}}},
      {"remainder", [](const Inputs& x) { return remainder(x[0] * 5, x[1]); }, {{3, 4}, {4}}, 0.5, 2},
      {"fmod", [](const Inputs& x) { return fmod(x[0] * 5, x[1]); }, {{3, 4}, {4}}, 0.5, 2},
      {"addcmul", [](const Inputs& x) { return addcmul(x[0], x[1], x[2], -0.5); }, {{2, 3}, {3}, {2, 1}}},
      {"addcmul_grows", [](const Inputs& x) { return addcmul(x[0], x[1], x[2]); }, {{3}, {2, 3}, {2, 1}}},
      {"addcdiv", [](const Inputs& x) { return addcdiv(x[0], x[1], x[2], 3); }, {{2, 3}, {3}, {2, 1}}, 0.5, 2},
      {"nan_to_num", [](const Inputs& x) { return nan_to_num(x[0]); }, {{3, 4}}},
      {"pow_number", [](const Inputs& x) { return pow(x[0], 2.5); }, {{3, 4}}, 0.5, 2},
      {"pow_zero", [](const Inputs& x) { return pow(x[0], 0); }, {{3, 4}}, 0.5, 2},
      {"clamp", [](const Inputs& x) { return clamp(x[0], {.min = -0.5, .max = 0.7}); }, {{3, 4}}},

      {"dropout",
       [](const Inputs& x) {
         manual_seed(3);
         return dropout(x[0], 0.4);
       },
       {{3, 4}}},
      {"relu", [](const Inputs& x) { return relu(x[0]); }, {{3, 4}}},
      {"leaky_relu", [](const Inputs& x) { return leaky_relu(x[0], 0.2); }, {{3, 4}}},
      {"elu", [](const Inputs& x) { return elu(x[0], 1.5); }, {{3, 4}}},
      {"selu", [](const Inputs& x) { return selu(x[0]); }, {{3, 4}}},
      {"gelu", [](const Inputs& x) { return gelu(x[0]); }, {{3, 4}}},
      {"silu", [](const Inputs& x) { return silu(x[0]); }, {{3, 4}}},
      {"mish", [](const Inputs& x) { return mish(x[0]); }, {{3, 4}}},
      {"hardtanh", [](const Inputs& x) { return hardtanh(x[0]); }, {{3, 4}}},
      {"gelu_tanh", [](const Inputs& x) { return gelu(x[0], GeluForm::tanh); }, {{3, 4}}},
      {"hardswish", [](const Inputs& x) { return hardswish(x[0]); }, {{3, 4}}, -5, 5},
      {"softplus", [](const Inputs& x) { return softplus(x[0], {.beta = 2, .threshold = 3}); }, {{3, 4}}},

      {"mse_loss", [](const Inputs& x) { return mse_loss(x[0], x[1]); }, {{3, 4}, {3, 4}}},
      {"l1_loss", [](const Inputs& x) { return l1_loss(x[0], x[1], {.reduction = Reduction::sum}); }, {{3, 4}, {3, 4}}},
      {"smooth_l1_loss",
       [](const Inputs& x) { return smooth_l1_loss(x[0], x[1], {.reduction = Reduction::none, .beta = 0.5}); },
       {{3, 4}, {3, 4}}},
      {"huber_loss", [](const Inputs& x) { return huber_loss(x[0], x[1], {.delta = 0.7}); }, {{3, 4}, {3, 4}}},
      {"binary_cross_entropy",
       [](const Inputs& x) {
         return binary_cross_entropy(x[0], x[1], {.weight = tensor({1., 2., 3., 4.}, {.dtype = kFloat64})});
       },
       {{3, 4}, {3, 4}},
       0.1,
       0.9},
      {"binary_cross_entropy_with_logits",
       [](const Inputs& x) { return binary_cross_entropy_with_logits(x[0], x[1]); },
       {{3, 4}, {3, 4}}},
      {"binary_cross_entropy_with_logits_pos_weight",
       [](const Inputs& x) {
         return binary_cross_entropy_with_logits(x[0], x[1],
                                                 {.pos_weight = tensor({1., 2., 3., 4.}, {.dtype = kFloat64})});
       },
       {{3, 4}, {3, 4}}},
      {"kl_div",
       [](const Inputs& x) { return kl_div(x[0], x[1], {.reduction = Reduction::batchmean}); },
       {{3, 4}, {3, 4}},
       0.1,
       1},
      {"kl_div_log_target", [](const Inputs& x) { return kl_div(x[0], x[1], {.log_target = true}); }, {{3, 4}, {3, 4}}},
      {"cross_entropy",
       [](const Inputs& x) {
         return cross_entropy(x[0], tensor({1, 0, 3}));
       },
       {{3, 4}}},
      {"cross_entropy_none",
       [](const Inputs& x) {
         return cross_entropy(x[0], tensor({1, 0, 3}), {.reduction = Reduction::none});
       },
       {{3, 4}}},
      {"cross_entropy_ignored",
       [](const Inputs& x) {
         return cross_entropy(x[0], tensor({1, 2, 3}), {.ignore_index = 2});
       },
       {{3, 4}}},
      {"cross_entropy_smoothed",
       [](const Inputs& x) {
         return cross_entropy(x[0], tensor({1, 0, 3}),
                              {.weight = tensor({1., 2., 3., 4.}, {.dtype = kFloat64}), .label_smoothing = 0.2});
       },
       {{3, 4}}},
      {"cross_entropy_of_images",
       [](const Inputs& x) {
         return cross_entropy(x[0], tensor({{1, 0}, {2, 1}}), {.reduction = Reduction::batchmean});
       },
       {{2, 3, 2}}},
      {"cross_entropy_one_row", [](const Inputs& x) { return cross_entropy(x[0], tensor(1)); }, {{3}}},
      {"cross_entropy_of_probabilities",
       [](const Inputs& x) {
         return cross_entropy(x[0], x[1],
                              {.weight = tensor({1., 2., 3., 4.}, {.dtype = kFloat64}), .label_smoothing = 0.2});
       },
       {{3, 4}, {3, 4}},
       0.1,
       1},
      {"nll_loss",
       [](const Inputs& x) {
         return nll_loss(x[0], tensor({1, 0, 3}), {.weight = tensor({1., 2., 3., 4.}, {.dtype = kFloat64})});
       },
       {{3, 4}}},
  };
}

}  // namespace lockstep
