#include <limits>

#include "ops/all_ops.h"

#include "reference/rows.h"

namespace lockstep::reference {
namespace {

Table activations() {
  return {
      {"celu", [](const Call& c) { return celu(c[0], c.number("alpha")); }},
      {"glu", [](const Call& c) { return glu(c[0], c.integer("dim")); }},
      {"hardshrink", [](const Call& c) { return hardshrink(c[0], c.number("lambd")); }},
      {"hardsigmoid", [](const Call& c) { return hardsigmoid(c[0]); }},
      {"logsigmoid", [](const Call& c) { return logsigmoid(c[0]); }},
      {"prelu", [](const Call& c) { return prelu(c[0], c[1]); }},
      {"relu6", [](const Call& c) { return relu6(c[0]); }},
      {"rrelu", [](const Call& c) { return rrelu(c[0], {.lower = c.number("lower"), .upper = c.number("upper")}); }},
      {"softmin", [](const Call& c) { return softmin(c[0], c.integer("dim")); }},
      {"softshrink", [](const Call& c) { return softshrink(c[0], c.number("lambd")); }},
      {"softsign", [](const Call& c) { return softsign(c[0]); }},
      {"tanhshrink", [](const Call& c) { return tanhshrink(c[0]); }},
      {"threshold", [](const Call& c) { return threshold(c[0], c.number("threshold"), c.number("value")); }},
  };
}

Reduction reduction_in(const Call& c) {
  const auto name = c.arg<std::string>("reduction", "mean");
  return name == "mean" ? Reduction::mean : name == "sum" ? Reduction::sum : Reduction::none;
}

Table margin_losses() {
  return {
      {"margin_ranking_loss",
       [](const Call& c) {
         return margin_ranking_loss(c[0], c[1], c[2], {.margin = c.number("margin"), .reduction = reduction_in(c)});
       }},
      {"cosine_embedding_loss",
       [](const Call& c) {
         return cosine_embedding_loss(c[0], c[1], c[2], {.margin = c.number("margin"), .reduction = reduction_in(c)});
       }},
      {"hinge_embedding_loss",
       [](const Call& c) {
         return hinge_embedding_loss(c[0], c[1], {.margin = c.number("margin"), .reduction = reduction_in(c)});
       }},
      {"triplet_margin_loss",
       [](const Call& c) {
         return triplet_margin_loss(
             c[0], c[1], c[2],
             {.margin = c.number("margin"), .p = c.number("p"), .swap = c.flag("swap"), .reduction = reduction_in(c)});
       }},
      {"multi_margin_loss",
       [](const Call& c) {
         return multi_margin_loss(c[0], c[1],
                                  {.p = c.integer("p"),
                                   .margin = c.number("margin"),
                                   .weight = c.inputs().size() > 2 ? c[2] : Tensor(),
                                   .reduction = reduction_in(c)});
       }},
      {"multilabel_margin_loss",
       [](const Call& c) { return multilabel_margin_loss(c[0], c[1], {.reduction = reduction_in(c)}); }},
      {"soft_margin_loss", [](const Call& c) { return soft_margin_loss(c[0], c[1], {.reduction = reduction_in(c)}); }},
      {"multilabel_soft_margin_loss",
       [](const Call& c) {
         return multilabel_soft_margin_loss(c[0], c[1], {.weight = c[2], .reduction = reduction_in(c)});
       }},
  };
}

Table likelihoods_and_distances() {
  return {
      {"poisson_nll_loss",
       [](const Call& c) {
         return poisson_nll_loss(
             c[0], c[1], {.log_input = c.flag("log_input"), .full = c.flag("full"), .reduction = reduction_in(c)});
       }},
      {"gaussian_nll_loss",
       [](const Call& c) {
         return gaussian_nll_loss(c[0], c[1], c[2],
                                  {.full = c.flag("full"), .eps = c.number("eps"), .reduction = reduction_in(c)});
       }},
      {"cosine_similarity", [](const Call& c) { return cosine_similarity(c[0], c[1], c.integer("dim")); }},
      {"normalize", [](const Call& c) { return normalize(c[0], {.p = c.number("p"), .dim = c.integer("dim")}); }},
      {"pairwise_distance",
       [](const Call& c) {
         return pairwise_distance(c[0], c[1], {.p = c.number("p"), .keep_dims = c.flag("keepdim")});
       }},
      {"cdist",
       [](const Call& c) {
         return cdist(c[0], c[1], c.flag("infinite") ? std::numeric_limits<double>::infinity() : c.number("p"));
       }},
  };
}

Table products_by_names() {
  return {
      {"rms_norm",
       [](const Call& c) {
         return rms_norm(c[0], c.integers("normalized_shape"), c.inputs().size() > 1 ? c[1] : Tensor(),
                         c.number("eps"));
       }},
      {"einsum", [](const Call& c) { return einsum(c.arg<std::string>("equation"), c.inputs()); }},
      {"tensordot",
       [](const Call& c) {
         const auto dims = c.arg<std::vector<std::vector<std::int64_t>>>("dims");
         return tensordot(c[0], c[1], Shape(std::span<const std::int64_t>(dims[0])),
                          Shape(std::span<const std::int64_t>(dims[1])));
       }},
      {"ctc_loss",
       [](const Call& c) {
         return ctc_loss(
             log_softmax(c[0], -1), c[1], c[2], c[3],
             {.blank = c.integer("blank"), .reduction = reduction_in(c), .zero_infinity = c.flag("zero_infinity")});
       }},
      {"embedding_bag",
       [](const Call& c) {
         const auto mode = c.arg<std::string>("mode");
         const bool weighted = c.flag("weighted"), padded = c.flag("padded");
         return embedding_bag(c[0], c[1],
                              {.mode = mode == "sum"    ? EmbeddingBagMode::sum
                                       : mode == "mean" ? EmbeddingBagMode::mean
                                                        : EmbeddingBagMode::max,
                               .offsets = c[1].dim() == 1 ? c[2] : Tensor(),
                               .include_last_offset = c.flag("include_last_offset"),
                               .per_sample_weights = weighted ? c.inputs().back() : Tensor(),
                               .padding_idx = padded ? std::optional<std::int64_t>(1) : std::nullopt});
       }},
      {"kron", [](const Call& c) { return kron(c[0], c[1]); }},
      {"bilinear", [](const Call& c) { return bilinear(c[0], c[1], c[2], c[3]); }},
  };
}

}  // namespace

void add_functional_rows(Table& table) {
  for (const Table& rows : {activations(), margin_losses(), likelihoods_and_distances(), products_by_names()})
    table.insert(rows.begin(), rows.end());
}

}  // namespace lockstep::reference
