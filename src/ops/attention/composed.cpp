#include "ops/attention/composed.h"

#include <algorithm>
#include <limits>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/dropout.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/tensor/creation.h>

#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

// Splits the heads into groups that share a key head. The key broadcasts along the new dimension, the heads of a group.
Tensor grouped(const Tensor& x, std::int64_t groups) {
  const Shape& s = x.sizes();
  return x.reshape({s[0], groups, s[1] / std::max<std::int64_t>(groups, 1), s[2], s[3]});
}

Tensor ungrouped(const Tensor& x) {
  const Shape& s = x.sizes();
  return x.reshape({s[0], s[1] * s[2], s[3], s[4]});
}

// The attention weights: [N, G, H / G, L, S].
Tensor weights_of(const AttentionInputs& in) {
  const std::int64_t groups = in.key.size(1), queries = in.query.size(2), keys = in.key.size(2);
  Tensor scores = matmul(grouped(in.query * in.scale, groups), in.key.unsqueeze(2).transpose(-1, -2));
  if (in.causal) {
    const TensorOptions here = {.device = in.query.device()};
    scores = masked_fill(scores, gt(arange(double(keys), here), arange(double(queries), here).unsqueeze(1)), kMasked);
  }
  if (!in.mask.defined()) return softmax(scores, -1);
  scores = scores + grouped(in.mask.expand({in.query.size(0), in.query.size(1), queries, keys}), groups);
  if (keys == 0) return softmax(scores, -1);  // there is no greatest score
  // Queries that see no key. Softmax and its gradient would be NaN for them, so their scores and weights become 0.
  const Tensor blind = eq(amax(scores.detach(), {-1}, true), kMasked);
  return masked_fill(softmax(masked_fill(scores, blind, 0), -1), blind, 0);
}

}  // namespace

Tensor by_position(const Tensor& like, const Shape& s) {
  const Tensor memory = make_tensor(*like.impl()->storage->device, {s[0], s[2], s[1], s[3]}, like.dtype());
  return make_view(memory, s, {s[2] * s[1] * s[3], s[3], s[1] * s[3], 1}, 0);
}

Tensor composed_attention(const AttentionInputs& in, double p, const Shape& scores) {
  Tensor weights = weights_of(in);
  if (p > 0) weights = dropout(weights.reshape(scores), p).reshape(weights.sizes());
  return ungrouped(matmul(weights, in.value.unsqueeze(2)));
}

AttentionGradients composed_attention_gradients(const Tensor& g, const AttentionInputs& in,
                                                const std::optional<DropoutDraw>& dropout) {
  const auto dropped = [&](const Tensor& x) { return dropout ? apply_dropout(x, *dropout) : x; };
  const std::int64_t groups = in.key.size(1);
  const Tensor p = weights_of(in), by_group = grouped(g, groups);
  const Tensor along = dropped(matmul(by_group, in.value.unsqueeze(2).transpose(-1, -2)));
  const Tensor scores = p * (along - sum(along * p, {-1}, true)) * in.scale;
  return {ungrouped(matmul(scores, in.key.unsqueeze(2))),
          sum(matmul(scores.transpose(-1, -2), grouped(in.query, groups)), {2}),
          sum(matmul(dropped(p).transpose(-1, -2), by_group), {2})};
}

}  // namespace lockstep
