// Gradient checks of more activations and losses, and of operations made of others.
#include <cmath>

#include "ops/all_ops.h"
#include "ops/gradcheck_cases.h"

namespace lockstep {

std::vector<GradientCase> functional_gradient_cases() {
  using Inputs = std::vector<Tensor>;
  const Tensor signs = tensor({1., -1., -1., 1.}, {.dtype = kFloat64});
  return {
      {"celu", [](const Inputs& x) { return celu(x[0], 1.5); }, {{3, 4}}},
      {"relu6", [](const Inputs& x) { return relu6(x[0]); }, {{3, 4}}, -3, 9},
      {"hardsigmoid", [](const Inputs& x) { return hardsigmoid(x[0]); }, {{3, 4}}, -5, 5},
      {"logsigmoid", [](const Inputs& x) { return logsigmoid(x[0]); }, {{3, 4}}},
      {"softsign", [](const Inputs& x) { return softsign(x[0]); }, {{3, 4}}},
      {"hardshrink", [](const Inputs& x) { return hardshrink(x[0]); }, {{3, 4}}},
      {"softshrink", [](const Inputs& x) { return softshrink(x[0], 0.7); }, {{3, 4}}},
      {"tanhshrink", [](const Inputs& x) { return tanhshrink(x[0]); }, {{3, 4}}},
      {"threshold", [](const Inputs& x) { return threshold(x[0], 0.3, 5); }, {{3, 4}}},
      {"glu", [](const Inputs& x) { return glu(x[0], 1); }, {{3, 4}}},
      {"prelu", [](const Inputs& x) { return prelu(x[0], x[1]); }, {{3, 4}, {4}}},
      {"prelu_of_one_weight", [](const Inputs& x) { return prelu(x[0], x[1]); }, {{2, 3, 2}, {1}}},
      {"rrelu", [](const Inputs& x) { return rrelu(x[0]); }, {{3, 4}}},
      {"rrelu_training",
       [](const Inputs& x) {
         manual_seed(3);
         return rrelu(x[0], {.training = true});
       },
       {{3, 4}}},
      {"softmin", [](const Inputs& x) { return softmin(x[0], 1); }, {{3, 4}}},
      {"gumbel_softmax",
       [](const Inputs& x) {
         manual_seed(3);
         return gumbel_softmax(x[0], {.tau = 0.7});
       },
       {{3, 4}}},

      {"margin_ranking_loss",
       [signs](const Inputs& x) { return margin_ranking_loss(x[0], x[1], signs, {.margin = 0.3}); },
       {{4}, {4}}},
      {"cosine_embedding_loss",
       [signs](const Inputs& x) { return cosine_embedding_loss(x[0], x[1], signs, {.margin = -0.5}); },
       {{4, 3}, {4, 3}}},
      {"hinge_embedding_loss", [signs](const Inputs& x) { return hinge_embedding_loss(x[0], signs); }, {{4}}},
      {"triplet_margin_loss",
       [](const Inputs& x) { return triplet_margin_loss(x[0], x[1], x[2], {.margin = 2, .swap = true}); },
       {{4, 3}, {4, 3}, {4, 3}}},
      {"multi_margin_loss",
       [signs](const Inputs& x) {
         return multi_margin_loss(x[0], tensor({1, 0, 3}), {.p = 2, .weight = signs + 2});
       },
       {{3, 4}}},
      {"multilabel_margin_loss",
       [](const Inputs& x) {
         return multilabel_margin_loss(x[0], tensor({{1, 0, -1}, {2, -1, 0}}));
       },
       {{2, 3}}},
      {"soft_margin_loss", [signs](const Inputs& x) { return soft_margin_loss(x[0], signs); }, {{4}}},
      {"multilabel_soft_margin_loss",
       [signs](const Inputs& x) { return multilabel_soft_margin_loss(x[0], (signs + 1) / 2, {.weight = signs + 2}); },
       {{4}}},
      {"poisson_nll_loss",
       [](const Inputs& x) { return poisson_nll_loss(x[0], x[1], {.full = true}); },
       {{4}, {4}},
       1.5,
       4},
      {"poisson_nll_loss_of_rates",
       [](const Inputs& x) { return poisson_nll_loss(x[0], x[1], {.log_input = false}); },
       {{4}, {4}},
       0.5,
       4},
      {"gaussian_nll_loss",
       [](const Inputs& x) { return gaussian_nll_loss(x[0], x[1], x[2], {.full = true}); },
       {{4, 3}, {4, 3}, {4}},
       0.5,
       2},

      {"cosine_similarity", [](const Inputs& x) { return cosine_similarity(x[0], x[1]); }, {{3, 4}, {1, 4}}},
      {"normalize", [](const Inputs& x) { return normalize(x[0], {.dim = 0}); }, {{3, 4}}},
      {"pairwise_distance", [](const Inputs& x) { return pairwise_distance(x[0], x[1]); }, {{3, 4}, {4}}},
      {"cdist", [](const Inputs& x) { return cdist(x[0], x[1]); }, {{2, 3, 4}, {2, 4}}},
      {"cdist_1", [](const Inputs& x) { return cdist(x[0], x[1], 1); }, {{3, 4}, {2, 4}}},
      {"cdist_3", [](const Inputs& x) { return cdist(x[0], x[1], 3); }, {{3, 4}, {2, 4}}},
      {"cdist_infinite", [](const Inputs& x) { return cdist(x[0], x[1], INFINITY); }, {{3, 4}, {2, 4}}},

      {"ctc_loss",
       [](const Inputs& x) {
         return ctc_loss(log_softmax(x[0], 2), tensor({{1, 1}, {3, 2}}), tensor({5, 4}), tensor({2, 1}));
       },
       {{5, 2, 4}}},
      {"embedding_bag",
       [](const Inputs& x) {
         return embedding_bag(x[0], tensor({2, 0, 2, 1}), {.offsets = tensor({0, 3, 3}), .padding_idx = 1});
       },
       {{3, 4}}},
      {"embedding_bag_max",
       [](const Inputs& x) {
         return embedding_bag(x[0], tensor({2, 0, 2, 1}), {.mode = EmbeddingBagMode::max, .offsets = tensor({0, 3})});
       },
       {{3, 4}}},
      {"embedding_bag_weighted",
       [](const Inputs& x) {
         return embedding_bag(x[0], tensor({{2, 0}, {2, 1}}),
                              {.mode = EmbeddingBagMode::sum, .per_sample_weights = x[1]});
       },
       {{3, 4}, {2, 2}}},
      {"channel_dropout",
       [](const Inputs& x) {
         manual_seed(3);
         return channel_dropout(x[0], 0.4);
       },
       {{3, 4, 2}}},
      {"alpha_dropout",
       [](const Inputs& x) {
         manual_seed(3);
         return alpha_dropout(x[0], 0.4);
       },
       {{3, 4}}},
      {"feature_alpha_dropout",
       [](const Inputs& x) {
         manual_seed(3);
         return feature_alpha_dropout(x[0], 0.4);
       },
       {{3, 4, 2}}},

      {"rms_norm",
       [](const Inputs& x) {
         return rms_norm(x[0], {3, 2}, x[1]);
       },
       {{2, 3, 2}, {3, 2}}},
      {"rms_norm_plain", [](const Inputs& x) { return rms_norm(x[0], {4}, {}, 0.1); }, {{3, 4}}},
      {"einsum",
       [](const Inputs& x) {
         return einsum("bij,jk,kb->ib", {x[0], x[1], x[2]});
       },
       {{2, 3, 2}, {2, 2}, {2, 2}}},
      {"einsum_of_an_ellipsis",
       [](const Inputs& x) {
         return einsum("...ii,i...->...i", {x[0], x[1]});
       },
       {{2, 3, 3}, {3, 1}}},
      {"tensordot", [](const Inputs& x) { return tensordot(x[0], x[1]); }, {{2, 3, 2}, {3, 2, 2}}},
      {"kron", [](const Inputs& x) { return kron(x[0], x[1]); }, {{2, 3}, {2}}},
      {"bilinear", [](const Inputs& x) { return bilinear(x[0], x[1], x[2], x[3]); }, {{3, 2}, {3, 4}, {2, 2, 4}, {2}}},
  };
}

}  // namespace lockstep
