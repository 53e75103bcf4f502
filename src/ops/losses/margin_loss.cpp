// Losses of distances and scores, made of ops. Sums of several terms are computed in float32 or wider.
#include <lockstep/ops/margin_loss.h>

#include <limits>

#include <lockstep/ops/activation.h>
#include <lockstep/ops/distance.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/order.h>
#include <lockstep/tensor/creation.h>

#include "ops/autocast.h"
#include "ops/index_check.h"
#include "ops/loss.h"

namespace lockstep {
namespace {

Tensor above_zero(const Tensor& x) { return clamp(x, {.min = 0}); }

void check_same(const char* op, const Tensor& x, const Tensor& other) {
  check_floating(op, x);
  check_target(op, x, other);
}

Tensor reduced_to(DType dtype, const Tensor& losses, Reduction reduction) {
  return reduced(losses, reduction).to(dtype);
}

// Makes x [classes] a batch of one row.
Tensor rows_of_classes(const char* op, const Tensor& x) {
  check_floating(op, x);
  if (x.dim() != 1 && x.dim() != 2)
    throw ShapeError(text("[", op, "] expected x [rows, classes] or [classes], got ", x.sizes()));
  return x.dim() == 1 ? x.unsqueeze(0) : x;
}

}  // namespace

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, const MarginLossOptions& options) {
  if (const auto cast = autocast::wide()) return margin_ranking_loss(cast(a), cast(b), cast(target), options);
  check_same("margin_ranking_loss", a, b);
  check_target("margin_ranking_loss", a, target);
  return reduced_to(promote(result_type(a, b), target.dtype()),
                    above_zero(widened(target) * (widened(b) - widened(a)) + options.margin), options.reduction);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, const MarginLossOptions& options) {
  if (const auto cast = autocast::wide()) return cosine_embedding_loss(cast(a), cast(b), cast(target), options);
  constexpr const char* kOp = "cosine_embedding_loss";
  check_same(kOp, a, b);
  check_same_device(kOp, a, target);
  Shape rows = a.sizes();
  if (!rows.empty()) rows.erase(rows.rank() - 1);
  if (a.dim() < 1 || a.dim() > 2 || target.sizes() != rows)
    throw ShapeError(
        text("[cosine_embedding_loss] expected rows [rows, features] and a target [rows], or [features] "
             "and a 0-dim target, got ",
             a.sizes(), " and ", target.sizes()));
  constexpr double kEps = 1e-12;
  const Tensor x = widened(a), y = widened(b);
  const Tensor sizes = (sum(square(x), {-1}) + kEps) * (sum(square(y), {-1}) + kEps);
  const Tensor cosine = sum(x * y, {-1}) * rsqrt(sizes);
  const Tensor apart = where(eq(target, -1), above_zero(cosine - options.margin), 0);
  return reduced_to(result_type(a, b), where(eq(target, 1), 1 - cosine, apart), options.reduction);
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, const HingeEmbeddingLossOptions& options) {
  if (const auto cast = autocast::wide()) return hinge_embedding_loss(cast(x), cast(target), options);
  check_same("hinge_embedding_loss", x, target);
  const Tensor wide = widened(x);
  const Tensor apart = where(ne(target, 1), above_zero(options.margin - wide), 0);
  return reduced_to(x.dtype(), where(ne(target, -1), wide, 0) + apart, options.reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options) {
  if (const auto cast = autocast::wide())
    return triplet_margin_loss(cast(anchor), cast(positive), cast(negative), options);
  check_same("triplet_margin_loss", anchor, positive);
  check_same("triplet_margin_loss", anchor, negative);
  const PairwiseDistanceOptions distance = {.p = options.p, .eps = options.eps};
  const Tensor a = widened(anchor), p = widened(positive), n = widened(negative);
  Tensor away = pairwise_distance(a, n, distance);
  if (options.swap) away = minimum(away, pairwise_distance(p, n, distance));
  return reduced_to(promote(result_type(anchor, positive), negative.dtype()),
                    above_zero(pairwise_distance(a, p, distance) - away + options.margin), options.reduction);
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& target, const MultiMarginLossOptions& options) {
  if (const auto cast = autocast::wide()) return multi_margin_loss(cast(x), cast(target), options);
  constexpr const char* kOp = "multi_margin_loss";
  const Tensor scores = widened(rows_of_classes(kOp, x));
  check_same_device(kOp, x, target);
  if (target.dim() != x.dim() - 1 || (target.dim() == 1 && target.size(0) != x.size(0)))
    throw ShapeError(text("[multi_margin_loss] expected a target of shape ", Shape{scores.size(0)}, " for x ",
                          x.sizes(), ", got ", target.sizes()));
  if (options.p != 1 && options.p != 2)
    throw InvalidArgument(text("[multi_margin_loss] expected p 1 or 2, got ", options.p));
  const std::int64_t classes = scores.size(1);
  if (options.weight.defined() && options.weight.sizes() != Shape{classes})
    throw ShapeError(
        text("[multi_margin_loss] expected a weight of shape ", Shape{classes}, ", got ", options.weight.sizes()));
  const Tensor chosen = as_index(kOp, target).reshape({-1, 1});
  check_index(kOp, chosen, classes);
  Tensor short_by = above_zero(options.margin + scores - gather_elements(scores, 1, chosen));
  if (options.p == 2) short_by = square(short_by);
  if (options.weight.defined()) short_by = short_by * index_select(options.weight, 0, chosen.view({-1})).unsqueeze(1);
  const Tensor own = one_hot(chosen.view({-1}), classes).to(kBool);
  const Tensor losses = sum(where(own, 0, short_by), {1}) / double(classes);
  return reduced_to(x.dtype(), x.dim() == 1 ? losses.squeeze(0) : losses, options.reduction);
}

Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, const LossOptions& options) {
  if (const auto cast = autocast::wide()) return multilabel_margin_loss(cast(x), cast(target), options);
  constexpr const char* kOp = "multilabel_margin_loss";
  const Tensor scores = widened(rows_of_classes(kOp, x));
  check_target(kOp, x, target);
  const Tensor index = as_index(kOp, target).reshape(scores.sizes());
  const std::int64_t classes = scores.size(1);
  const Tensor counts = eq(cumsum(lt(index, 0.0).to(kInt64), 1), 0);  // true before the first -1
  const Tensor chosen = where(counts, index, full({}, 0, {.dtype = kInt64, .device = index.device()}));
  check_index(kOp, chosen, classes);
  const Tensor weight = counts.to(scores.dtype());
  const Tensor is_other =
      eq(scatter_add(zeros(scores.sizes(), {.dtype = scores.dtype(), .device = x.device()}), 1, chosen, weight), 0);
  const Tensor own = gather_elements(scores, 1, chosen);
  const Tensor short_by = above_zero(1 - (own.unsqueeze(2) - scores.unsqueeze(1)));
  const Tensor terms = short_by * (weight.unsqueeze(2) * is_other.to(scores.dtype()).unsqueeze(1));
  const Tensor losses = sum(terms, {1, 2}) / double(classes);
  return reduced_to(x.dtype(), x.dim() == 1 ? losses.squeeze(0) : losses, options.reduction);
}

Tensor soft_margin_loss(const Tensor& x, const Tensor& target, const LossOptions& options) {
  if (const auto cast = autocast::wide()) return soft_margin_loss(cast(x), cast(target), options);
  check_same("soft_margin_loss", x, target);
  // The threshold for softplus. Above a finite threshold softplus would return x itself, which is inexact.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return reduced_to(x.dtype(), softplus(-(widened(target) * widened(x)), {.threshold = kInfinity}), options.reduction);
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target,
                                   const MultilabelSoftMarginLossOptions& options) {
  if (const auto cast = autocast::wide()) return multilabel_soft_margin_loss(cast(x), cast(target), options);
  check_same("multilabel_soft_margin_loss", x, target);
  if (x.dim() < 1) throw ShapeError("[multilabel_soft_margin_loss] expected x [..., classes], got []");
  const Tensor losses = binary_cross_entropy_with_logits(
      widened(x), widened(target),
      {.weight = options.weight.defined() ? widened(options.weight) : Tensor(), .reduction = Reduction::none});
  return reduced_to(result_type(x, target), mean(losses, {-1}), options.reduction);
}

}  // namespace lockstep
