// Attention on the host, in tiles: only the scores of one tile of queries and keys exist at a time, and the gradient
// recomputes them (Dao et al., FlashAttention, 2022). The order of summation depends only on the sizes, not on threads.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include <lockstep/core/elementary.h>
#include <lockstep/core/pairwise_reduce.h>
#include <lockstep/core/vectorized.h>

#include "cpu/fused_dispatch.h"
#include "cpu/library_use.h"
#include "cpu/parallel.h"

namespace lockstep::host {
namespace {

constexpr std::int64_t kQueries = 64, kKeys = 256;                // tile sizes
constexpr double kParallelFlops = double(std::int64_t(1) << 19);  // the least work per task

// The rows of one head of an operand.
template <class T>
struct Rows {
  T* data;
  std::int64_t pitch, length, columns;

  T* at(std::int64_t row) const { return data + row * pitch; }
};

template <class T>
Rows<T> head_of(const FusedOperand& x, std::int64_t n, std::int64_t h) {
  const std::int64_t columns = x.sizes[3];
  return {static_cast<T*>(x.data) + n * x.strides[0] + h * x.strides[1],
          x.sizes[2] == 1 ? std::max<std::int64_t>(columns, 1) : x.strides[2], x.sizes[2], columns};
}

// A factor of product(), which computes c = alpha op(a) op(b) + beta c.
template <class T>
struct Factor {
  const T* data;
  std::int64_t pitch;
  bool transposed = false;
};
template <class T>
void product(std::int64_t m, std::int64_t n, std::int64_t k, Factor<T> a, Factor<T> b, T* c, std::int64_t pitch,
             double alpha, double beta) {
  matmul_piece({.dtype = kDTypeOf<T>,
                .m = m,
                .n = n,
                .k = k,
                .a = a.data,
                .b = b.data,
                .c = c,
                .lda = a.pitch,
                .ldb = b.pitch,
                .ldc = pitch,
                .transpose_a = a.transposed,
                .transpose_b = b.transposed,
                .alpha = alpha,
                .beta = beta});
}

// x[i] = exp(x[i] - shift); returns their sum.
template <class T>
LOCKSTEP_INLINE T exponentials(T* x, std::int64_t count, T shift) {
  return lane_reduce(
      0, count, T(0), [&](T sum, std::int64_t i) { return sum + (x[i] = elementary::exp(x[i] - shift)); },
      std::plus<>());
}

template <class T>
LOCKSTEP_INLINE T greatest_of(const T* x, std::int64_t count, T least) {
  const auto greater = [](T a, T b) { return b > a ? b : a; };
  return lane_reduce(
      0, count, least, [&](T most, std::int64_t i) { return greater(most, x[i]); }, greater);
}

// The arguments of one call, which all heads share.
template <class T>
struct Attention {
  static constexpr T kHidden = -std::numeric_limits<T>::infinity();

  const FusedOp& op;
  const FusedOperand &query, &key, &value, &mask;
  std::int64_t heads = query.sizes[1], groups = key.sizes[1], queries = query.sizes[2], keys = key.sizes[2];

  // Returns how many keys of the tile at `key_at` are visible to any of the queries [row, row + rows).
  std::int64_t seen(std::int64_t row, std::int64_t rows, std::int64_t key_at) const {
    const std::int64_t end = op.causal ? std::min(keys, row + rows) : keys;
    return std::min(kKeys, end - key_at);
  }

  // Computes the scores [rows, kKeys] of `rows` queries from `row` on with `columns` keys from `key_at` on. Masked
  // scores are -infinity.
  void scores(const Rows<T>& q, const Rows<T>& k, std::int64_t n, std::int64_t h, std::int64_t row, std::int64_t rows,
              std::int64_t key_at, std::int64_t columns, T* to) const {
    product<T>(rows, columns, q.columns, {q.at(row), q.pitch}, {k.at(key_at), k.pitch, true}, to, kKeys, op.scale, 0);
    if (mask.present) {
      const auto* added = static_cast<const T*>(mask.data) + n * mask.strides[0] + h * mask.strides[1] +
                          row * mask.strides[2] + key_at * mask.strides[3];
      vectorized([&] {
        for (std::int64_t i = 0; i < rows; ++i) {
          T* const row_to = to + i * kKeys;
          const T* const row_added = added + i * mask.strides[2];
          if (mask.strides[3] == 1) {
            LOCKSTEP_IVDEP
            for (std::int64_t j = 0; j < columns; ++j) row_to[j] += row_added[j];
          } else {
            for (std::int64_t j = 0; j < columns; ++j) row_to[j] += row_added[j * mask.strides[3]];
          }
        }
      });
    }
    if (!op.causal) return;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = std::max<std::int64_t>(0, row + i + 1 - key_at); j < columns; ++j)
        to[i * kKeys + j] = kHidden;
  }
};

// One tile of queries of one head: rows [row, row + rows).
template <class T>
void forward_tile(const Attention<T>& a, std::int64_t n, std::int64_t h, std::int64_t row, std::int64_t rows,
                  T* scores) {
  const std::int64_t group = h / (a.heads / a.groups);
  const Rows<T> q = head_of<T>(a.query, n, h), k = head_of<T>(a.key, n, group), v = head_of<T>(a.value, n, group),
                y = head_of<T>(a.op.operands[4], n, h);
  T greatest[kQueries], sums[kQueries];
  std::fill_n(greatest, rows, a.kHidden);
  std::fill_n(sums, rows, T(0));
  for (std::int64_t key_at = 0; key_at < a.keys; key_at += kKeys) {
    const std::int64_t columns = a.seen(row, rows, key_at);
    if (columns <= 0) break;
    a.scores(q, k, n, h, row, rows, key_at, columns, scores);
    vectorized([&] {
      for (std::int64_t i = 0; i < rows; ++i) {
        T* const s = scores + i * kKeys;
        const T most = greatest_of(s, columns, greatest[i]);
        const T shift = most == a.kHidden ? T(0) : most;  // all keys so far are masked
        if (most != greatest[i] && key_at > 0) {
          const T factor = std::exp(greatest[i] - shift);
          sums[i] *= factor;
          for (std::int64_t c = 0; c < y.columns; ++c) y.at(row + i)[c] *= factor;
        }
        greatest[i] = most;
        sums[i] += exponentials(s, columns, shift);
      }
    });
    product<T>(rows, v.columns, columns, {scores, kKeys}, {v.at(key_at), v.pitch}, y.at(row), y.pitch, 1, key_at > 0);
  }
  const FusedOperand& logsumexp = a.op.operands[5];
  T* const log_at = static_cast<T*>(logsumexp.data) + n * logsumexp.strides[0] + h * logsumexp.strides[1];
  for (std::int64_t i = 0; i < rows; ++i) {
    // If all keys of a query are masked, its sum is 0, and so is its result. Its logsumexp is infinity, which makes its
    // gradient 0, because exp(-infinity - infinity) is 0.
    const bool blind = sums[i] == 0;
    const T scale = blind ? T(0) : 1 / sums[i];
    for (std::int64_t c = 0; c < y.columns; ++c) y.at(row + i)[c] *= scale;
    log_at[(row + i) * logsumexp.strides[2]] =
        blind ? std::numeric_limits<T>::infinity() : greatest[i] + std::log(sums[i]);
  }
}

template <class T>
void forward(const KernelContext& context, const FusedOp& op) {
  const auto& x = op.operands;
  const Attention<T> a{op, x[0], x[1], x[2], x[3]};
  const std::int64_t tiles = (a.queries + kQueries - 1) / kQueries, count = x[0].sizes[0] * a.heads * tiles;
  const std::int64_t grain = std::int64_t(kParallelFlops * double(count) / std::max(op.flops, 1.0)) + 1;
  parallel_for(context, count, grain, [&](std::int64_t begin, std::int64_t end) {
    const auto scores = std::make_unique_for_overwrite<T[]>(std::size_t(kQueries * kKeys));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t head = i / tiles, row = i % tiles * kQueries;
      forward_tile(a, head / a.heads, head % a.heads, row, std::min(kQueries, a.queries - row), scores.get());
    }
  });
}

template <class T>
struct Gradients {
  const Attention<T>& a;
  const FusedOperand &g, &y, &logsumexp, &query, &key, &value;

  // Computes all query heads that share one key head.
  void group(std::int64_t n, std::int64_t at) const {
    const Rows<T> k = head_of<T>(a.key, n, at), v = head_of<T>(a.value, n, at), to_k = head_of<T>(key, n, at),
                  to_v = head_of<T>(value, n, at);
    for (std::int64_t i = 0; i < a.keys; ++i) {
      std::fill_n(to_k.at(i), to_k.columns, T(0));
      std::fill_n(to_v.at(i), to_v.columns, T(0));
    }
    const std::int64_t shared = a.heads / a.groups;
    std::vector<T> along(std::size_t(a.queries)), p(std::size_t(kQueries * kKeys)), d(p.size());
    for (std::int64_t h = at * shared; h < (at + 1) * shared; ++h) {
      const Rows<T> q = head_of<T>(a.query, n, h), from = head_of<T>(g, n, h), to_q = head_of<T>(query, n, h),
                    out = head_of<T>(y, n, h);
      const T* const log_at =
          static_cast<const T*>(logsumexp.data) + n * logsumexp.strides[0] + h * logsumexp.strides[1];
      vectorized([&] {
        for (std::int64_t i = 0; i < a.queries; ++i) {
          const T *const g_row = from.at(i), *const y_row = out.at(i);
          along[std::size_t(i)] = lane_reduce(
              0, out.columns, T(0), [&](T sum, std::int64_t c) { return sum + g_row[c] * y_row[c]; }, std::plus<>());
        }
      });
      for (std::int64_t key_at = 0; key_at < a.keys; key_at += kKeys)
        for (std::int64_t row = 0; row < a.queries; row += kQueries) {
          const std::int64_t rows = std::min(kQueries, a.queries - row), columns = a.seen(row, rows, key_at);
          if (columns <= 0) continue;
          a.scores(q, k, n, h, row, rows, key_at, columns, p.data());
          product<T>(rows, columns, v.columns, {from.at(row), from.pitch}, {v.at(key_at), v.pitch, true}, d.data(),
                     kKeys, 1, 0);
          vectorized([&] {
            for (std::int64_t i = 0; i < rows; ++i) {
              T *const weights = &p[std::size_t(i * kKeys)], *const slopes = &d[std::size_t(i * kKeys)];
              exponentials(weights, columns, log_at[(row + i) * logsumexp.strides[2]]);
              const T mean = along[std::size_t(row + i)];
              LOCKSTEP_IVDEP
              for (std::int64_t j = 0; j < columns; ++j) slopes[j] = weights[j] * (slopes[j] - mean);
            }
          });
          product<T>(columns, v.columns, rows, {p.data(), kKeys, true}, {from.at(row), from.pitch}, to_v.at(key_at),
                     to_v.pitch, 1, 1);
          product<T>(columns, q.columns, rows, {d.data(), kKeys, true}, {q.at(row), q.pitch}, to_k.at(key_at),
                     to_k.pitch, a.op.scale, 1);
          product<T>(rows, q.columns, columns, {d.data(), kKeys}, {k.at(key_at), k.pitch}, to_q.at(row), to_q.pitch,
                     a.op.scale, key_at > 0);
        }
    }
  }
};

template <class T>
void backward(const KernelContext& context, const FusedOp& op) {
  const auto& x = op.operands;
  const Attention<T> a{op, x[1], x[2], x[3], x[4]};
  const Gradients<T> gradients{a, x[0], x[5], x[6], x[7], x[8], x[9]};
  const std::int64_t count = x[1].sizes[0] * a.groups;
  const std::int64_t grain = std::int64_t(kParallelFlops * double(count) / std::max(op.flops, 1.0)) + 1;
  parallel_for(context, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) gradients.group(i / a.groups, i % a.groups);
  });
}

// Returns true if the matrix product supports these strides.
bool has_rows(const FusedOperand& x) {
  return (x.strides[3] == 1 || x.sizes[3] == 1) && (x.strides[2] >= x.sizes[3] || x.sizes[2] == 1);
}

}  // namespace

std::optional<std::size_t> attention_workspace_size(const FusedOp& op) {
  const bool gradient = op.kind == FusedKind::attention_gradient;
  const int mask = gradient ? 4 : 3, logsumexp = gradient ? 6 : 5, count = gradient ? 10 : 6;
  const DType dtype = op.operands[0].dtype;
  if ((dtype != kFloat32 && dtype != kFloat64) || op.dropout.threshold != 0) return std::nullopt;
  for (int i = 0; i < count; ++i) {
    const FusedOperand& x = op.operands[std::size_t(i)];
    if (!x.present && i == mask) continue;
    if (x.dtype != dtype || (i != mask && i != logsumexp && !has_rows(x))) return std::nullopt;
  }
  return 0;
}

void attention(const KernelContext& context, const FusedOp& op) {
  const LibraryUse use;
  const bool wide = op.operands[0].dtype == kFloat64;
  if (op.kind == FusedKind::attention) return wide ? forward<double>(context, op) : forward<float>(context, op);
  return wide ? backward<double>(context, op) : backward<float>(context, op);
}

}  // namespace lockstep::host
