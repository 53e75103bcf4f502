// Losses as modules: nn::CrossEntropyLoss criterion({.label_smoothing = 0.1}); criterion(model(input), target). The
// functions of the same names in lockstep/ops/loss.h, margin_loss.h and likelihood_loss.h document them. Class weights
// are buffers: they move with the module and are in its state dict.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/nn/module.h>
#include <lockstep/ops/likelihood_loss.h>
#include <lockstep/ops/loss.h>
#include <lockstep/ops/margin_loss.h>
#include <lockstep/ops/weighted_mean.h>

namespace lockstep::nn {

namespace detail {

/// A loss whose options are plain numbers.
template <class Self, class Options, auto kFunction>
struct PlainLoss : Module<Self> {
  explicit PlainLoss(const Options& given = {}) : options(given) {}
  Options options;
  template <class... Tensors>
  Tensor forward(const Tensors&... inputs) const {
    return kFunction(inputs..., options);
  }
};

/// A loss with a tensor among its options. The loss keeps this tensor as the buffer `weight`, which is nullopt if the
/// tensor is undefined.
template <class Self, class Options, auto kFunction>
class WeightedLoss : public Module<Self> {
 public:
  explicit WeightedLoss(const Options& given = {}) : options_(given) {
    if (given.weight.defined()) weight.emplace(given.weight);
    options_.weight = {};
  }
  std::optional<Buffer> weight;
  auto members() { return nn::members("weight", weight); }
  Tensor forward(const Tensor& input, const Tensor& target) const { return kFunction(input, target, options()); }
  /// The options as given, with the weight on its present device.
  Options options() const {
    Options options = options_;
    if (weight) options.weight = *weight;
    return options;
  }

 private:
  Options options_;
};

}  // namespace detail

struct LOCKSTEP_API MSELoss : detail::PlainLoss<MSELoss, LossOptions, mse_loss> {
  using PlainLoss::PlainLoss;
};
struct LOCKSTEP_API L1Loss : detail::PlainLoss<L1Loss, LossOptions, l1_loss> {
  using PlainLoss::PlainLoss;
};
struct LOCKSTEP_API SmoothL1Loss : detail::PlainLoss<SmoothL1Loss, SmoothL1LossOptions, smooth_l1_loss> {
  using PlainLoss::PlainLoss;
};
struct LOCKSTEP_API HuberLoss : detail::PlainLoss<HuberLoss, HuberLossOptions, huber_loss> {
  using PlainLoss::PlainLoss;
};
struct LOCKSTEP_API KLDivLoss : detail::PlainLoss<KLDivLoss, KlDivOptions, kl_div> {
  using PlainLoss::PlainLoss;
};
struct LOCKSTEP_API PoissonNLLLoss : detail::PlainLoss<PoissonNLLLoss, PoissonNllLossOptions, poisson_nll_loss> {
  using PlainLoss::PlainLoss;
};
struct LOCKSTEP_API GaussianNLLLoss : detail::PlainLoss<GaussianNLLLoss, GaussianNllLossOptions, gaussian_nll_loss> {
  using PlainLoss::PlainLoss;
};
struct LOCKSTEP_API SoftMarginLoss : detail::PlainLoss<SoftMarginLoss, LossOptions, soft_margin_loss> {
  using PlainLoss::PlainLoss;
};
struct LOCKSTEP_API MultiLabelMarginLoss
    : detail::PlainLoss<MultiLabelMarginLoss, LossOptions, multilabel_margin_loss> {
  using PlainLoss::PlainLoss;
};
struct LOCKSTEP_API HingeEmbeddingLoss
    : detail::PlainLoss<HingeEmbeddingLoss, HingeEmbeddingLossOptions, hinge_embedding_loss> {
  using PlainLoss::PlainLoss;
};
struct LOCKSTEP_API MarginRankingLoss : detail::PlainLoss<MarginRankingLoss, MarginLossOptions, margin_ranking_loss> {
  using PlainLoss::PlainLoss;
};
struct LOCKSTEP_API CosineEmbeddingLoss
    : detail::PlainLoss<CosineEmbeddingLoss, MarginLossOptions, cosine_embedding_loss> {
  using PlainLoss::PlainLoss;
};
struct LOCKSTEP_API TripletMarginLoss
    : detail::PlainLoss<TripletMarginLoss, TripletMarginLossOptions, triplet_margin_loss> {
  using PlainLoss::PlainLoss;
};

struct LOCKSTEP_API CTCLoss : detail::PlainLoss<CTCLoss, CtcLossOptions, ctc_loss> {
  using PlainLoss::PlainLoss;
};

/// Takes logits. mean() returns a mean and its weight, from which the mean over several batches can be computed.
struct LOCKSTEP_API CrossEntropyLoss : detail::WeightedLoss<CrossEntropyLoss, CrossEntropyOptions, cross_entropy> {
  using WeightedLoss::WeightedLoss;
  /// Calls mean_cross_entropy().
  WeightedMean mean(const Tensor& input, const Tensor& target) const {
    return mean_cross_entropy(input, target, options());
  }
};
/// Takes logarithms of probabilities. mean() returns a mean and its weight, from which the mean over several batches
/// can be computed.
struct LOCKSTEP_API NLLLoss : detail::WeightedLoss<NLLLoss, NllLossOptions, nll_loss> {
  using WeightedLoss::WeightedLoss;
  /// Calls mean_nll_loss().
  WeightedMean mean(const Tensor& input, const Tensor& target) const {
    return mean_nll_loss(input, target, options());
  }
};
struct LOCKSTEP_API MultiMarginLoss : detail::WeightedLoss<MultiMarginLoss, MultiMarginLossOptions, multi_margin_loss> {
  using WeightedLoss::WeightedLoss;
};
struct LOCKSTEP_API MultiLabelSoftMarginLoss
    : detail::WeightedLoss<MultiLabelSoftMarginLoss, MultilabelSoftMarginLossOptions, multilabel_soft_margin_loss> {
  using WeightedLoss::WeightedLoss;
};
/// Takes probabilities. (BCEWithLogitsLoss has pos_weight.)
struct LOCKSTEP_API BCELoss : detail::WeightedLoss<BCELoss, BinaryCrossEntropyOptions, binary_cross_entropy> {
  using WeightedLoss::WeightedLoss;
};

class LOCKSTEP_API BCEWithLogitsLoss : public Module<BCEWithLogitsLoss> {
 public:
  explicit BCEWithLogitsLoss(const BinaryCrossEntropyOptions& options = {});

  std::optional<Buffer> weight, pos_weight;  ///< See binary_cross_entropy_with_logits().

  auto members() { return nn::members("weight", weight, "pos_weight", pos_weight); }
  Tensor forward(const Tensor& input, const Tensor& target) const;

 private:
  Reduction reduction_;
};

}  // namespace lockstep::nn
