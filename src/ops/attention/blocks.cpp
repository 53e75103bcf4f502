#include "ops/attention/blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/elementary.h>
#include <lockstep/tensor/creation.h>

#include "kernels/rows/rows.h"
#include "ops/dtypes.h"
#include "ops/product.h"

namespace lockstep {
namespace {

// The score of key i of a row, and the mask's value for it: -infinity if the query does not see the key.
template <class C, class... Mask>
struct BlockScores {
  RowOf<const C> products;
  std::int64_t seen;

  LOCKSTEP_HD C operator()(std::int64_t i, const RowOf<const Mask>&... mask) const {
    return i < seen ? (products[i] + ... + C(mask[i])) : -std::numeric_limits<C>::infinity();
  }
};

// The logarithm of the sum of a row's exponentials. Infinity if the mask hides all keys: then all weights are 0.
template <class C, class... Mask>
struct BlockLogSum {
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<C> out, RowOf<const C> products, RowOf<const std::int64_t> seen,
                              RowOf<const Mask>... mask) const {
    const BlockScores<C, Mask...> score{products, seen[0]};
    const C least = -std::numeric_limits<C>::infinity();
    const C best = team.reduce(
        products.length, least,
        [&](C most, auto i) {
          const C x = score(i, mask...);
          return x > most ? x : most;
        },
        [](C x, C y) { return y > x ? y : x; });
    const C shift = std::isinf(best) ? C(0) : best;
    const C sum =
        sum_over(team, products.length, [&](auto i) { return C(elementary::exp(score(i, mask...) - shift)); });
    if (team.first()) out[0] = sum == 0 ? -least : shift + elementary::log(sum);
  }
};

template <class T, class C, class... Mask>
struct BlockWeights {
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<T> out, RowOf<const C> products, RowOf<const std::int64_t> seen,
                              RowOf<const C> log_sum, RowOf<const Mask>... mask) const {
    const BlockScores<C, Mask...> score{products, seen[0]};
    team.fill(out, [&](auto i) { return T(elementary::exp(score(i, mask...) - log_sum[0])); });
  }
};

// The gradient of the scores, from the gradients of their weights and the weighted mean of those gradients.
template <class T, class C>
struct BlockScoresGradient {
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<T> out, RowOf<const C> g, RowOf<const T> weights,
                              RowOf<const C> mean) const {
    team.fill(out, [&](auto i) { return T(C(weights[i]) * (g[i] - mean[0])); });
  }
};

// The sum of g y, which is the weighted mean of the gradients of a query's weights.
template <class T, class C>
struct BlockMean {
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<C> out, RowOf<const T> g, RowOf<const T> y) const {
    const C sum = sum_over(team, g.length, [&](auto i) { return C(g[i]) * C(y[i]); });
    if (team.first()) out[0] = sum;
  }
};

Tensor uninitialized(const Tensor& like, const Shape& sizes, DType dtype) {
  return make_tensor(*like.impl()->storage->device, sizes, dtype);
}

Tensor flipped(const Tensor& matrices) { return matrices.transpose(-1, -2); }

// Reshapes [N, H, rows, columns] to [N * H, rows, columns]: one matrix for each head of each batch element.
Tensor matrices_of_heads(const Tensor& x) { return x.reshape({x.size(0) * x.size(1), x.size(2), x.size(3)}); }

Tensor product(const Tensor& a, const Tensor& b, DType dtype, double alpha = 1) {
  const Tensor out = uninitialized(a, {a.size(0), a.size(1), b.size(2)}, dtype);
  multiply(out, a, b, {.alpha = alpha});
  return out;
}

// The queries [row, row + rows) and the first `keys` keys, which are all that any of these queries sees. The query
// heads that share a key head are stacked in one matrix: one product serves all of them, and the product for the key's
// gradient sums over them.
struct QueryBlock {
  const AttentionInputs& in;
  const Tensor& seen_by;  // [L, 1] int64: how many keys each query sees
  std::int64_t row, rows, keys;

  DType dtype() const { return in.query.dtype(); }
  Shape sizes(std::int64_t columns) const { return {in.query.size(0), in.query.size(1), rows, columns}; }

  Tensor part(const Tensor& x) const { return x.narrow(2, row, rows); }
  // Returns the block's rows of x [N, H, L, columns] as [N G, H / G rows, columns].
  Tensor read(const Tensor& x) const {
    const std::int64_t groups = in.key.size(1);
    return part(x).reshape({x.size(0) * groups, x.size(1) / groups * rows, x.size(3)});
  }
  void write(const Tensor& matrices, const Tensor& x) const { part(x).copy_(matrices.view(part(x).sizes())); }
  // Returns the rows of x [N G, S, columns] that belong to visible keys.
  Tensor seen(const Tensor& x) const { return x.narrow(1, 0, keys); }

  // Returns scale q k^T in the wide dtype, without the mask.
  Tensor products(const Tensor& query, const Tensor& key) const {
    return product(query, flipped(seen(key)), wide_dtype(dtype()), in.scale);
  }

  // Calls body.operator()<T, C, M...>(number of visible keys, mask...): T and C are the dtype and the wide dtype; with
  // a mask, M is T.
  template <class Body>
  void typed(const Body& body) const {
    const Tensor count = seen_by.narrow(0, row, rows).expand(sizes(1));
    visit_floating("attention", dtype(), [&]<class T>() {
      if (in.mask.defined())
        body.template operator()<T, ComputeType<T>, T>(count, part(in.mask).narrow(3, 0, keys));
      else
        body.template operator()<T, ComputeType<T>>(count);
    });
  }

  void log_sum(const Tensor& products, const Tensor& to) const {
    typed([&]<class T, class C, class... M>(const Tensor& count, const auto&... mask) {
      map_rows<C, C, std::int64_t, M...>("attention_logsumexp", 4, BlockLogSum<C, M...>(), 3, part(to),
                                         products.view(sizes(keys)), count, mask...);
    });
  }
  Tensor weights(const Tensor& products, const Tensor& log_sums) const {
    const Tensor out = uninitialized(products, products.sizes(), dtype());
    typed([&]<class T, class C, class... M>(const Tensor& count, const auto&... mask) {
      map_rows<T, C, std::int64_t, C, M...>("attention_weights", 3, BlockWeights<T, C, M...>(), 3,
                                            out.view(sizes(keys)), products.view(sizes(keys)), count, part(log_sums),
                                            mask...);
    });
    return out;
  }
  Tensor scores_gradient(const Tensor& g, const Tensor& weights, const Tensor& means) const {
    const Tensor out = uninitialized(weights, weights.sizes(), dtype());
    typed([&]<class T, class C, class... M>(const Tensor&, const auto&...) {
      map_rows<T, C, T, C>("attention_scores_gradient", 2, BlockScoresGradient<T, C>(), 3, out.view(sizes(keys)),
                           g.view(sizes(keys)), weights.view(sizes(keys)), part(means));
    });
    return out;
  }
};

template <class Body>
void each_block(const AttentionInputs& in, std::int64_t rows, const Body& body) {
  const std::int64_t queries = in.query.size(2), keys = in.key.size(2);
  // Backends cache a plan for each size of a product, up to some thousand plans. So the blocks share a few sizes.
  constexpr std::int64_t kMostSizes = 64;
  const std::int64_t step = rows * ((keys + kMostSizes * rows - 1) / (kMostSizes * rows));
  const TensorOptions numbers = {.dtype = kInt64, .device = in.query.device()};
  const Tensor seen_by =
      (in.causal ? arange(1, double(queries + 1), 1, numbers) : full({1}, double(keys), numbers).expand({queries}))
          .unsqueeze(1);
  for (std::int64_t row = 0; row < queries; row += rows) {
    const std::int64_t count = std::min(rows, queries - row), end = (row + count + step - 1) / step * step;
    body(QueryBlock{in, seen_by, row, count, in.causal ? std::min(keys, end) : keys});
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
    const Tensor products = block.products(block.read(in.query), key);
    block.log_sum(products, log_sums);
    block.write(product(block.weights(products, log_sums), block.seen(value), in.query.dtype()), y);
  });
}

AttentionGradients attention_gradients_by_blocks(const Tensor& g, const AttentionInputs& in, std::int64_t rows,
                                                 const Tensor& y, const Tensor& logsumexp) {
  const NoGrad guard;
  const DType dtype = in.query.dtype(), wide = wide_dtype(dtype);
  const TensorOptions wide_here = {.dtype = wide, .device = in.query.device()};
  const Tensor key = matrices_of_heads(in.key), value = matrices_of_heads(in.value), log_sums = logsumexp.unsqueeze(-1),
               means = uninitialized(log_sums, log_sums.sizes(), wide),
               to_query = by_position(in.query, in.query.sizes()), to_key = zeros(key.sizes(), wide_here),
               to_value = zeros(value.sizes(), wide_here);
  visit_floating("attention", dtype, [&]<class T>() {
    using C = ComputeType<T>;
    map_rows<C, T, T>("attention_means", 2, BlockMean<T, C>(), 3, means, g, y);
  });
  each_block(in, rows, [&](const QueryBlock& block) {
    const Tensor from = block.read(g), query = block.read(in.query),
                 weights = block.weights(block.products(query, key), log_sums);
    multiply(block.seen(to_value), flipped(weights), from, {.beta = 1});
    const Tensor scores = block.scores_gradient(product(from, flipped(block.seen(value)), wide), weights, means);
    multiply(block.seen(to_key), flipped(scores), query, {.alpha = in.scale, .beta = 1});
    block.write(product(scores, block.seen(key), dtype, in.scale), to_query);
  });
  return {to_query, to_key.view(in.key.sizes()).to(dtype), to_value.view(in.value.sizes()).to(dtype)};
}

}  // namespace lockstep
