// Gradient checks of roundings, reductions, products, shapes and indexing.
#include "ops/all_ops.h"
#include "ops/gradcheck_cases.h"

namespace lockstep {

std::vector<GradientCase> structure_gradient_cases() {
  using Inputs = std::vector<Tensor>;
  return {
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
      {"median", [](const Inputs& x) { return median(x[0], 1).values; }, {{3, 4}}},
      {"median_of_all", [](const Inputs& x) { return median(x[0]); }, {{3, 3}}},
      {"vstack",
       [](const Inputs& x) {
         return vstack({x[0], x[1]});
       },
       {{3}, {2, 3}}},
      {"hstack",
       [](const Inputs& x) {
         return hstack({x[0], x[1]});
       },
       {{2, 3}, {2, 1}}},
      {"logsumexp", [](const Inputs& x) { return logsumexp(x[0], {1}); }, {{3, 4}}},
      {"cumsum", [](const Inputs& x) { return cumsum(x[0], 1); }, {{3, 4}}},
      {"cumprod", [](const Inputs& x) { return cumprod(x[0], 1); }, {{3, 4}}},
      {"cumprod_with_zeros",
       [](const Inputs& x) {
         return cumprod(x[0] * tensor({{1, 0, 1, 0}, {0, 0, 1, 1}, {1, 1, 1, 0}}), 1);
       },
       {{3, 4}}},
      {"diff", [](const Inputs& x) { return diff(x[0], 2, 1, x[1]); }, {{3, 4}, {3, 1}}},
      {"kthvalue", [](const Inputs& x) { return kthvalue(x[0], 2, 0).values; }, {{3, 4}}},
      {"quantile", [](const Inputs& x) { return quantile(x[0], x[1], 1); }, {{3, 4}, {2}}, 0.05, 0.3},
      {"quantile_of_all", [](const Inputs& x) { return quantile(x[0], 0.3); }, {{3, 4}}},
      {"var_mean",
       [](const Inputs& x) {
         const auto [variance, mean] = var_mean(x[0], 1);
         return std::vector{variance, mean};
       },
       {{3, 4}}},
      {"std_mean",
       [](const Inputs& x) {
         const auto [deviation, mean] = std_mean(x[0]);
         return std::vector{deviation, mean};
       },
       {{3, 4}}},
      {"sort", [](const Inputs& x) { return sort(x[0], 1, true).values; }, {{3, 4}}},
      {"topk", [](const Inputs& x) { return topk(x[0], 2, 1).values; }, {{3, 4}}},

      {"softmax", [](const Inputs& x) { return softmax(x[0], 1); }, {{3, 4}}},
      {"softmax_across", [](const Inputs& x) { return softmax(x[0], 0); }, {{3, 4}}},
      {"log_softmax", [](const Inputs& x) { return log_softmax(x[0], 1); }, {{3, 4}}},
      {"instance_norm", [](const Inputs& x) { return instance_norm(x[0], {}, {}, x[1], x[2]); }, {{2, 2, 3}, {2}, {2}}},
      {"layer_norm", [](const Inputs& x) { return layer_norm(x[0], {4}, x[1], x[2]); }, {{3, 4}, {4}, {4}}},
      {"layer_norm_plain",
       [](const Inputs& x) {
         return layer_norm(x[0], {3, 2});
       },
       {{2, 3, 2}}},
      {"group_norm", [](const Inputs& x) { return group_norm(x[0], 2, x[1], x[2]); }, {{2, 4, 3}, {4}, {4}}},
      {"batch_norm", [](const Inputs& x) { return batch_norm(x[0], {}, {}, x[1], x[2]); }, {{4, 3}, {3}, {3}}},
      {"batch_norm_images",
       [](const Inputs& x) {
         return batch_norm(x[0].permute({0, 3, 1, 2}), {}, {}, x[1]);  // channels-last
       },
       {{2, 2, 2, 3}, {3}}},
      {"batch_norm_running",
       [](const Inputs& x) {
         const Tensor running = tensor({0.5, 1., 2.}, {.dtype = kFloat64});
         return batch_norm(x[0], running, running, x[1], x[2], {.training = false});
       },
       {{4, 3}, {3}, {3}}},

      {"mv", [](const Inputs& x) { return mv(x[0], x[1]); }, {{2, 3}, {3}}},
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
      {"split",
       [](const Inputs& x) {
         return split(x[0], {1, 2}, 1);
       },
       {{2, 3}}},
      {"unbind", [](const Inputs& x) { return unbind(x[0], 1); }, {{2, 3}}},
      {"flip", [](const Inputs& x) { return flip(x[0], {1}); }, {{3, 4}}},
      {"rot90", [](const Inputs& x) { return rot90(x[0], 1, {1, 0}); }, {{3, 4}}},
      {"roll",
       [](const Inputs& x) {
         return roll(x[0], {1, -1}, {0, 1});
       },
       {{3, 4}}},
      {"pad",
       [](const Inputs& x) {
         return pad(x[0], {1, 2}, 3);
       },
       {{3, 4}}},
      {"tril", [](const Inputs& x) { return tril(x[0]); }, {{3, 4}}},
      {"triu", [](const Inputs& x) { return triu(x[0], 1); }, {{3, 4}}},
      {"repeat",
       [](const Inputs& x) {
         return repeat(x[0], {2, 1, 2});
       },
       {{3, 2}}},
      {"repeat_interleave", [](const Inputs& x) { return repeat_interleave(x[0], 2, 1); }, {{3, 2}}},

      {"tile", [](const Inputs& x) { return tile(x[0], 2); }, {{3, 2}}},
      {"diag", [](const Inputs& x) { return diag(x[0], 1); }, {{3}}},
      {"diag_of_matrix", [](const Inputs& x) { return diag(x[0], -1); }, {{3, 4}}},
      {"diagonal", [](const Inputs& x) { return diagonal(x[0], 1, 2, 0); }, {{3, 2, 4}}},
      {"movedim", [](const Inputs& x) { return movedim(x[0], 0, 2); }, {{3, 2, 4}}},
      {"unflatten",
       [](const Inputs& x) {
         return unflatten(x[0], 1, {2, -1});
       },
       {{3, 4}}},
      {"tensor_split", [](const Inputs& x) { return tensor_split(x[0], 3, 1); }, {{2, 4}}},
      {"tensor_split_overlapping",
       [](const Inputs& x) {
         return tensor_split(x[0], {3, 1});
       },
       {{4, 2}}},
      {"windows_of_a_tensor", [](const Inputs& x) { return x[0].unfold(1, 3, 2); }, {{2, 7}}},
      {"meshgrid",
       [](const Inputs& x) {
         return meshgrid({x[0], x[1]});
       },
       {{3}, {2}}},
      {"scatter_elements",
       [](const Inputs& x) {
         return scatter_elements(x[0], 1, tensor({{0, 1}, {1, 1}, {3, 0}}), x[1]);
       },
       {{3, 4}, {3, 2}}},
      {"indices_apart",
       [](const Inputs& x) {
         return Tensor(x[0].index({tensor({0, 2, 0}), Slice(), tensor({1, 3, 1})}));
       },
       {{3, 2, 4}}},
      {"mask", [](const Inputs& x) { return Tensor(x[0][x[0].detach() > 0]); }, {{3, 4}}},
      {"index_put",
       [](const Inputs& x) {
         Tensor y = x[0] * x[0];
         y.index_put_({tensor({2, 0, 2}), Slice(0, 2)}, x[1]);
         return y * y;
       },
       {{3, 4}, {3, 2}}},
      {"index_put_adds",
       [](const Inputs& x) {
         Tensor y = x[0] * x[0];
         y.index_put_({tensor({2, 0, 2})}, x[1], true);
         return y * y;
       },
       {{3, 4}, {4}}},
      {"in_place",
       [](const Inputs& x) {
         Tensor y = x[0] * 2;
         y.tanh_().abs_().add_(1).log_().pow_(2).clamp_(0.01, 5).neg_();
         return y;
       },
       {{3, 4}},
       0.5,
       2},

      {"index_copy",
       [](const Inputs& x) {
         return index_copy(x[0], 1, tensor({2, 0}), x[1]);
       },
       {{3, 4}, {3, 2}}},
      {"index_fill",
       [](const Inputs& x) {
         return index_fill(x[0], 1, tensor({2, 0, 2}), x[1]);
       },
       {{3, 4}, {}}},
      {"index_select",
       [](const Inputs& x) {
         return index_select(x[0], 1, tensor({2, 0, 2}));
       },
       {{3, 4}}},
      {"gather_elements",
       [](const Inputs& x) {
         return gather_elements(x[0], 1, tensor({{0, 1}, {1, 1}, {3, 0}}));
       },
       {{3, 4}}},
      {"index_add",
       [](const Inputs& x) {
         return index_add(x[0], 1, tensor({3, 1, 3}), x[1], 0.5);
       },
       {{2, 4}, {2, 3}}},
      {"scatter_add",
       [](const Inputs& x) {
         return scatter_add(x[0], 1, tensor({{0, 1}, {1, 1}, {3, 0}}), x[1]);
       },
       {{3, 4}, {3, 2}}},
      {"embedding",
       [](const Inputs& x) {
         return embedding(x[0], tensor({2, 0, 2}));
       },
       {{3, 4}}},
      {"masked_select", [](const Inputs& x) { return masked_select(x[0], x[0].detach() > 0); }, {{3, 4}}},
  };
}

}  // namespace lockstep
