// Margin losses: they ask that a score, or a distance between embeddings, is right by a margin. Floating dtypes, else
// DTypeError; shapes as each function says, else ShapeError. Differentiable. Formulas and defaults are PyTorch's. Other
// losses are in loss.h.
#pragma once

#include <cstdint>

#include <lockstep/ops/loss.h>

namespace lockstep {

struct MarginLossOptions {
  double margin = 0;
  Choice<Reduction> reduction = Reduction::mean;
};
/// max(0, -target (a - b) + margin). All tensors have one shape; target: 1 if a should be greater, -1 if b should.
LOCKSTEP_API Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                                        const MarginLossOptions& options = {});

/// 1 - cos(a, b) for target 1, max(0, cos(a, b) - margin) for target -1. a, b: [rows, features] and target: [rows];
/// or [features] and 0-dim.
LOCKSTEP_API Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                                          const MarginLossOptions& options = {});

struct HingeEmbeddingLossOptions {
  double margin = 1;
  Choice<Reduction> reduction = Reduction::mean;
};
/// x for target 1, max(0, margin - x) for target -1. x and target have one shape.
LOCKSTEP_API Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target,
                                         const HingeEmbeddingLossOptions& options = {});

struct TripletMarginLossOptions {
  double margin = 1;
  double p = 2;  ///< The order of the distance's norm.
  double eps = 1e-6;
  bool swap = false;  ///< The negative's distance is the smaller of its distances to the anchor and to the positive.
  Choice<Reduction> reduction = Reduction::mean;
};
/// max(0, |anchor - positive| - |anchor - negative| + margin). All [rows, features] or [features]
/// (Balntas et al. 2016).
LOCKSTEP_API Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                        const TripletMarginLossOptions& options = {});

struct MultiMarginLossOptions {
  std::int64_t p = 1;  ///< 1 or 2, else InvalidArgument.
  double margin = 1;
  Tensor weight = {};  ///< Weights of the classes: [classes].
  Choice<Reduction> reduction = Reduction::mean;
};
/// Sum over the other classes of weight[target] max(0, margin - x[target] + x[class])^p / classes. x: [rows, classes],
/// target: [rows] of int32 or int64; or [classes] and 0-dim.
LOCKSTEP_API Tensor multi_margin_loss(const Tensor& x, const Tensor& target,
                                      const MultiMarginLossOptions& options = {});

/// Sum over each target class and each other class of max(0, 1 - (x[target] - x[other])) / classes. x: [rows, classes]
/// or [classes]; target: the same shape, int32 or int64: the row's classes, then -1.
LOCKSTEP_API Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, const LossOptions& options = {});

/// log(1 + exp(-target x)), target 1 or -1. x and target have one shape.
LOCKSTEP_API Tensor soft_margin_loss(const Tensor& x, const Tensor& target, const LossOptions& options = {});

struct MultilabelSoftMarginLossOptions {
  Tensor weight = {};  ///< Broadcasts to x.
  Choice<Reduction> reduction = Reduction::mean;
};
/// The mean of binary_cross_entropy_with_logits over the last dimension. x and target have one shape.
LOCKSTEP_API Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target,
                                                const MultilabelSoftMarginLossOptions& options = {});

}  // namespace lockstep
