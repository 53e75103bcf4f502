#include "ops/attention/blocks.h"

#include <algorithm>
#include <limits>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>

#include "ops/elementwise.h"
#include "ops/product.h"

namespace lockstep {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();  // the score of a hidden key

struct Weight {
  template <class T>
  LOCKSTEP_HD T operator()(T score, T logsumexp) const {
    return elementary::exp(score - logsumexp);
  }
};
// The gradient of a score, from the gradient of its weight and the weighted mean of those gradients.
struct ScoreGradient {
  template <class T>
  LOCKSTEP_HD T operator()(T g, T weight, T mean) const {
    return weight * (g - mean);
  }
};

Tensor flipped(const Tensor& matrices) { return matrices.transpose(-1, -2); }

// Reshapes [N, H, rows, columns] to [N * H, rows, columns]: one matrix for each head of each batch element.
Tensor matrices_of_heads(const Tensor& x) { return x.reshape({x.size(0) * x.size(1), x.size(2), x.size(3)}); }

Tensor product(const Tensor& a, const Tensor& b, double alpha = 1) {
  const Tensor out = make_tensor(*a.impl()->storage->device, {a.size(0), a.size(1), b.size(2)}, a.dtype());
  multiply(out, a, b, {.alpha = alpha});
  return out;
}

// The queries [row, row + rows) and the first `keys` keys, which are all that any of these queries sees. The query
// heads that share a key head are stacked in one matrix: one product serves all of them, and the product for the key's
// gradient sums over them.
struct QueryBlock {
  const AttentionInputs& in;
  std::int64_t row, rows, keys;

  Tensor part(const Tensor& x) const { return x.narrow(2, row, rows); }
  // Returns the block's rows of x [N, H, L, columns] as [N G, H / G rows, columns].
  Tensor read(const Tensor& x) const {
    const std::int64_t groups = in.key.size(1);
    return part(x).reshape({x.size(0) * groups, x.size(1) / groups * rows, x.size(3)});
  }
  void write(const Tensor& matrices, const Tensor& x) const { part(x).copy_(matrices.view(part(x).sizes())); }
  // Returns the rows of x [N G, S, columns] that belong to visible keys.
  Tensor seen(const Tensor& x) const { return x.narrow(1, 0, keys); }

  Tensor scores(const Tensor& query, const Tensor& key) const {
    const Tensor all = product(query, flipped(seen(key)), in.scale);
    Tensor by_head = all.view({in.query.size(0), in.query.size(1), rows, keys});
    if (in.mask.defined()) by_head.add_(part(in.mask).narrow(3, 0, keys));
    if (in.causal && row < keys) {  // masks only keys from `row` on: all queries see the earlier ones
      const TensorOptions here = {.device = all.device()};
      Tensor corner = by_head.narrow(3, row, keys - row);
      corner.copy_(
          masked_fill(corner, gt(arange(double(keys - row), here), arange(double(rows), here).unsqueeze(1)), kHidden));
    }
    return all;
  }
};

template <class Body>
void each_block(const AttentionInputs& in, std::int64_t rows, const Body& body) {
  const std::int64_t queries = in.query.size(2), keys = in.key.size(2);
  // Backends cache a plan for each size of a product, up to some thousand plans. So the blocks share a few sizes.
  constexpr std::int64_t kMostSizes = 64;
  const std::int64_t step = rows * ((keys + kMostSizes * rows - 1) / (kMostSizes * rows));
  for (std::int64_t row = 0; row < queries; row += rows) {
    const std::int64_t count = std::min(rows, queries - row), end = (row + count + step - 1) / step * step;
    body(QueryBlock{in, row, count, in.causal ? std::min(keys, end) : keys});
  }
}

}  // namespace

// A block has at most 2^18 scores per head, 1 MiB in float32; with up to 512 keys it has at least 512 queries. (Heads
// and batches make it large enough for a GPU. The block size depends only on the number of keys, so the order of
// summation does not depend on the batch size.) It has at least 64 rows, since each block reads all keys.
std::int64_t attention_block_rows(std::int64_t keys) {
  constexpr std::int64_t kScores = std::int64_t(1) << 18, kLeast = 64;
  return std::max(kLeast, kScores / keys / kLeast * kLeast);
}

void attention_by_blocks(const AttentionInputs& in, std::int64_t rows, const Tensor& y, const Tensor& logsumexp) {
  const NoGrad guard;
  const Tensor key = matrices_of_heads(in.key), value = matrices_of_heads(in.value), log_sums = logsumexp.unsqueeze(-1);
  each_block(in, rows, [&](const QueryBlock& block) {
    const Tensor weights = block.scores(block.read(in.query), key);
    Tensor log_sum = lockstep::logsumexp(weights, {-1}, true);
    if (in.mask.defined()) log_sum = masked_fill(log_sum, eq(log_sum, kHidden), -kHidden);
    map_floating("attention_weights", 1, Weight(), weights, weights, log_sum);
    block.write(product(weights, block.seen(value)), y);
    block.write(log_sum, log_sums);
  });
}

AttentionGradients attention_gradients_by_blocks(const Tensor& g, const AttentionInputs& in, std::int64_t rows,
                                                 const Tensor& y, const Tensor& logsumexp) {
  const NoGrad guard;
  const Tensor key = matrices_of_heads(in.key), value = matrices_of_heads(in.value), log_sums = logsumexp.unsqueeze(-1),
               means = sum(g * y, {-1}, true), to_query = by_position(in.query, in.query.sizes()),
               to_key = zeros_like(key), to_value = zeros_like(value);
  each_block(in, rows, [&](const QueryBlock& block) {
    const Tensor from = block.read(g), query = block.read(in.query), weights = block.scores(query, key);
    map_floating("attention_weights", 1, Weight(), weights, weights, block.read(log_sums));
    multiply(block.seen(to_value), flipped(weights), from, {.beta = 1});
    const Tensor scores = product(from, flipped(block.seen(value)));
    map_floating("attention_scores_gradient", 1, ScoreGradient(), scores, scores, weights, block.read(means));
    multiply(block.seen(to_key), flipped(scores), query, {.alpha = in.scale, .beta = 1});
    block.write(product(scores, block.seen(key), in.scale), to_query);
  });
  return {to_query, to_key.view(in.key.sizes()), to_value.view(in.value.sizes())};
}

}  // namespace lockstep
