// Every differentiable function of lockstep/ops against central differences, its gradients and their gradients. Adding
// one is adding a row: without it the last test fails. (Views, movement and in-place operations have tests of their
// own.)
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "ops/all_ops.h"

namespace lockstep {
namespace {

using Inputs = std::vector<Tensor>;

// Gives a Tensor, or a vector of them.
struct Function {
  template <class F>
  Function(F function) : call(detail::tensor_function(function)) {}
  detail::TensorFunction call;
};

struct Case {
  const char* name;  // of the function, or that and "_" and what is special about it
  Function function;
  std::vector<Shape> sizes;   // of the inputs
  double low = -2, high = 2;  // what the inputs are drawn from
};

void PrintTo(const Case& example, std::ostream* out) { *out << example.name; }

class Gradcheck : public ::testing::TestWithParam<Case> {
 protected:
  Gradcheck() {
    manual_seed(7);
    for (const Shape& sizes : GetParam().sizes) {
      Tensor x = empty(sizes, {.dtype = kFloat64});
      inputs_.push_back(uniform_(x, GetParam().low, GetParam().high));
    }
  }
  Inputs inputs_;
};

TEST_P(Gradcheck, GradientsAreDerivatives) { EXPECT_NO_THROW(gradcheck(GetParam().function.call, inputs_)); }
TEST_P(Gradcheck, GradientsOfGradientsAreDerivatives) {
  EXPECT_NO_THROW(gradgradcheck(GetParam().function.call, inputs_));
}

const Case kCases[] = {
    {"add", [](const Inputs& x) { return add(x[0], x[1], 0.5); }, {{2, 3}, {3}}},
    {"sub", [](const Inputs& x) { return x[0] - x[1]; }, {{2, 1}, {3}}},
    {"mul", [](const Inputs& x) { return x[0] * x[1]; }, {{2, 3}, {2, 1}}},
    {"mul_by_itself", [](const Inputs& x) { return x[0] * x[0]; }, {{2, 3}}},
    {"div", [](const Inputs& x) { return x[0] / x[1]; }, {{2, 3}, {3}}, 0.5, 2},
    {"numbers", [](const Inputs& x) { return (2 - x[0] * 3) / 4 + 1 / (x[0] + 5); }, {{2, 3}}},
    {"maximum", [](const Inputs& x) { return maximum(x[0], x[1]); }, {{2, 3}, {3}}},
    {"minimum", [](const Inputs& x) { return minimum(x[0], x[1]); }, {{2, 3}, {}}},
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
     [](const Inputs& x) { return kl_div(x[0], x[1], {.reduction = Reduction::batch_mean}); },
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
       return cross_entropy(x[0], tensor({{1, 0}, {2, 1}}), {.reduction = Reduction::batch_mean});
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

    {"floor", [](const Inputs& x) { return floor(x[0]); }, {{3, 4}}},
    {"ceil", [](const Inputs& x) { return ceil(x[0]); }, {{3, 4}}},
    {"trunc", [](const Inputs& x) { return trunc(x[0]); }, {{3, 4}}},
    {"round", [](const Inputs& x) { return round(x[0]); }, {{3, 4}}},
    {"sign", [](const Inputs& x) { return sign(x[0]); }, {{3, 4}}},

    {"sum", [](const Inputs& x) { return sum(x[0]); }, {{3, 4}}},
    {"sum_along",
     [](const Inputs& x) {
       return sum(x[0], {0, 2});
     },
     {{2, 3, 2}}},
    {"sum_to",
     [](const Inputs& x) {
       return sum_to(x[0], {3, 1});
     },
     {{2, 3, 2}}},
    {"mean", [](const Inputs& x) { return mean(x[0]); }, {{3, 4}}},
    {"mean_along", [](const Inputs& x) { return mean(x[0], {-1}, true); }, {{3, 4}}},
    {"prod", [](const Inputs& x) { return prod(x[0]); }, {{3, 2}}},
    {"prod_along", [](const Inputs& x) { return prod(x[0], {1}); }, {{3, 4}}},
    {"amax", [](const Inputs& x) { return amax(x[0], {1}); }, {{3, 4}}},
    {"amin",
     [](const Inputs& x) {
       return amin(x[0], {0, 1});
     },
     {{3, 4}}},
    {"max", [](const Inputs& x) { return max(x[0]); }, {{3, 4}}},
    {"max_along", [](const Inputs& x) { return max(x[0], 1).values; }, {{3, 4}}},
    {"min", [](const Inputs& x) { return min(x[0]); }, {{3, 4}}},
    {"min_along", [](const Inputs& x) { return min(x[0], 0, true).values; }, {{3, 4}}},
    {"var", [](const Inputs& x) { return var(x[0]); }, {{3, 4}}},
    {"var_along", [](const Inputs& x) { return var(x[0], {1}, {.correction = 0}); }, {{3, 4}}},
    {"stddev", [](const Inputs& x) { return stddev(x[0], {1}); }, {{3, 4}}},
    {"norm", [](const Inputs& x) { return norm(x[0]); }, {{3, 4}}},
    {"norm_1", [](const Inputs& x) { return norm(x[0], 1, {1}); }, {{3, 4}}},
    {"norm_3", [](const Inputs& x) { return norm(x[0], 3, {0}); }, {{3, 4}}},
    {"logsumexp", [](const Inputs& x) { return logsumexp(x[0], {1}); }, {{3, 4}}},
    {"cumsum", [](const Inputs& x) { return cumsum(x[0], 1); }, {{3, 4}}},
    {"sort", [](const Inputs& x) { return sort(x[0], 1, true).values; }, {{3, 4}}},
    {"topk", [](const Inputs& x) { return topk(x[0], 2, 1).values; }, {{3, 4}}},

    {"softmax", [](const Inputs& x) { return softmax(x[0], 1); }, {{3, 4}}},
    {"softmax_across", [](const Inputs& x) { return softmax(x[0], 0); }, {{3, 4}}},
    {"log_softmax", [](const Inputs& x) { return log_softmax(x[0], 1); }, {{3, 4}}},
    {"layer_norm", [](const Inputs& x) { return layer_norm(x[0], {4}, x[1], x[2]); }, {{3, 4}, {4}, {4}}},
    {"layer_norm_plain",
     [](const Inputs& x) {
       return layer_norm(x[0], {3, 2});
     },
     {{2, 3, 2}}},
    {"group_norm", [](const Inputs& x) { return group_norm(x[0], 2, x[1], x[2]); }, {{2, 4, 3}, {4}, {4}}},
    {"batch_norm", [](const Inputs& x) { return batch_norm(x[0], {}, {}, x[1], x[2]); }, {{4, 3}, {3}, {3}}},
    {"batch_norm_running",
     [](const Inputs& x) {
       const Tensor running = tensor({0.5, 1., 2.}, {.dtype = kFloat64});
       return batch_norm(x[0], running, running, x[1], x[2], {.training = false});
     },
     {{4, 3}, {3}, {3}}},

    {"mm", [](const Inputs& x) { return mm(x[0], x[1]); }, {{2, 3}, {3, 4}}},
    {"bmm", [](const Inputs& x) { return bmm(x[0], x[1]); }, {{2, 2, 3}, {2, 3, 2}}},
    {"matmul", [](const Inputs& x) { return matmul(x[0], x[1]); }, {{2, 2, 3}, {3, 2}}},
    {"matmul_of_a_vector", [](const Inputs& x) { return matmul(x[0], x[1]); }, {{3}, {2, 3, 2}}},
    {"dot", [](const Inputs& x) { return dot(x[0], x[1]); }, {{4}, {4}}},
    {"outer", [](const Inputs& x) { return outer(x[0], x[1]); }, {{2}, {3}}},
    {"linear", [](const Inputs& x) { return linear(x[0], x[1], x[2]); }, {{2, 3}, {4, 3}, {4}}},
    {"linear_without_bias", [](const Inputs& x) { return linear(x[0], x[1]); }, {{2, 2, 3}, {4, 3}}},
    {"addmm",
     [](const Inputs& x) { return addmm(x[0], x[1], x[2], {.beta = 0.5, .alpha = 2}); },
     {{2, 4}, {2, 3}, {3, 4}}},

    {"cat", [](const Inputs& x) { return cat(x, 1); }, {{2, 3}, {2, 2}}},
    {"stack", [](const Inputs& x) { return stack(x, 1); }, {{2, 3}, {2, 3}}},
    {"chunk", [](const Inputs& x) { return chunk(x[0], 2, 1); }, {{2, 3}}},
    {"split", [](const Inputs& x) { return split(x[0], {1, 2}, 1); }, {{2, 3}}},
    {"unbind", [](const Inputs& x) { return unbind(x[0], 1); }, {{2, 3}}},
    {"flip", [](const Inputs& x) { return flip(x[0], {1}); }, {{3, 4}}},
    {"roll", [](const Inputs& x) { return roll(x[0], {1, -1}, {0, 1}); }, {{3, 4}}},
    {"pad", [](const Inputs& x) { return pad(x[0], {1, 2}, 3); }, {{3, 4}}},
    {"tril", [](const Inputs& x) { return tril(x[0]); }, {{3, 4}}},
    {"triu", [](const Inputs& x) { return triu(x[0], 1); }, {{3, 4}}},
    {"repeat", [](const Inputs& x) { return repeat(x[0], {2, 1, 2}); }, {{3, 2}}},
    {"repeat_interleave", [](const Inputs& x) { return repeat_interleave(x[0], 2, 1); }, {{3, 2}}},

    {"index_select", [](const Inputs& x) { return index_select(x[0], 1, tensor({2, 0, 2})); }, {{3, 4}}},
    {"gather_elements",
     [](const Inputs& x) { return gather_elements(x[0], 1, tensor({{0, 1}, {1, 1}, {3, 0}})); },
     {{3, 4}}},
    {"scatter_add",
     [](const Inputs& x) { return scatter_add(x[0], 1, tensor({{0, 1}, {1, 1}, {3, 0}}), x[1]); },
     {{3, 4}, {3, 2}}},
    {"embedding", [](const Inputs& x) { return embedding(x[0], tensor({2, 0, 2})); }, {{3, 4}}},
    {"masked_select", [](const Inputs& x) { return masked_select(x[0], x[0].detach() > 0); }, {{3, 4}}},
};

INSTANTIATE_TEST_SUITE_P(, Gradcheck, ::testing::ValuesIn(kCases),
                         [](const auto& example) { return std::string(example.param.name); });

// What gives bools or indices.
const std::set<std::string> kNotDifferentiable = {
    "all",   "any", "argmax",      "argmin",      "argsort",    "eq",          "ge", "gt", "isfinite", "isinf",
    "isnan", "le",  "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "ne", "nonzero",  "one_hot"};

// The functions that the headers of lockstep/ops declare.
std::set<std::string> declared_functions() {
  const std::regex declaration("LOCKSTEP_API (?:Tensor|ValuesAndIndices|std::vector<Tensor>) ([a-z_0-9]+)\\(");
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(LOCKSTEP_SOURCE_DIR "/include/lockstep/ops")) {
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    const std::string all = text.str();
    for (std::sregex_iterator found(all.begin(), all.end(), declaration), end; found != end; ++found)
      names.insert((*found)[1]);
  }
  return names;
}

// The longest name of a function that a case's name begins with.
std::string function_of(std::string name, const std::set<std::string>& functions) {
  while (!functions.contains(name) && name.find('_') != std::string::npos) name.resize(name.rfind('_'));
  return name;
}

TEST(Gradchecks, LeaveOutNoDifferentiableFunction) {
  const std::set<std::string> functions = declared_functions();
  EXPECT_GT(functions.size(), 100u);
  std::set<std::string> expected, checked;
  std::ranges::set_difference(functions, kNotDifferentiable, std::inserter(expected, expected.end()));
  for (const Case& each : kCases)
    if (const std::string name = function_of(each.name, functions); functions.contains(name)) checked.insert(name);
  EXPECT_EQ(checked, expected);
}

}  // namespace
}  // namespace lockstep
