// Batch norm on the host: one pass over x for the statistics and one for the result; two such passes for the gradients.
// Images may be channels-last or row-major. The order of summation depends only on the shape.
#include <algorithm>
#include <cmath>
#include <functional>

#include <lockstep/core/pairwise_reduce.h>
#include <lockstep/core/vectorized.h>

#include "core/channels_last.h"
#include "cpu/fused_dispatch.h"
#include "cpu/parallel.h"

namespace lockstep::host {
namespace {

// The sizes of a tensor seen as [outer, channels, inner]. If it is channels-last, outer counts pixels and inner is 1.
struct Extent {
  std::int64_t outer = 0, channels = 0, inner = 1;

  bool operator==(const Extent&) const = default;
  std::int64_t count() const { return outer * inner; }
  bool by_rows() const { return inner == 1; }
  // Sums are computed in chunks: chunk() is the number of rows (if inner is 1), or of images, in one partial sum.
  std::int64_t chunk() const { return by_rows() ? 256 : 1; }
  std::int64_t chunks() const { return (outer + chunk() - 1) / chunk(); }
  std::int64_t rows_of(std::int64_t piece) const { return std::min(chunk(), outer - piece * chunk()); }
  std::int64_t grain() const { return (1 << 15) / std::max<std::int64_t>(chunk() * channels * inner, 1) + 1; }
};

std::optional<Extent> extent_of(const FusedOperand& x) {
  const std::int64_t batch = x.sizes[0], channels = x.sizes[1], elements = x.sizes.elements();
  if (elements == 0) return std::nullopt;
  if (channels == 1 && is_row_major(x)) return Extent{batch, 1, elements / batch};
  if (is_dense_channels_last(x.sizes, x.strides)) return Extent{elements / channels, channels, 1};
  if (is_row_major(x)) return Extent{batch, channels, elements / batch / channels};
  return std::nullopt;
}

// Two partial sums per channel and chunk: [chunks, 2, channels]. They are combined into two numbers per channel.
struct Partial {
  double* data;
  std::int64_t channels;
  double* first(std::int64_t chunk) const { return data + 2 * chunk * channels; }
  double* second(std::int64_t chunk) const { return first(chunk) + channels; }
};

constexpr std::int64_t kChannelsAtOnce = 256;  // channels whose sums stay in the first-level cache

// Calls body(row, count) for each row of a chunk; `row` points to the `count` elements of x from channel `from` on.
template <class T, class Body>
void rows_of_chunk(const Extent& e, std::int64_t chunk, std::int64_t from, std::int64_t count, const T* x,
                   const Body& body) {
  const T* row = x + chunk * e.chunk() * e.channels + from;
  for (std::int64_t r = 0; r < e.rows_of(chunk); ++r, row += e.channels) body(row, count);
}

template <class T, class F>
T sum_of(std::int64_t count, const F& f) {
  return lane_reduce(
      0, count, T(0), [&](T sum, std::int64_t i) { return sum + f(i); }, std::plus<>());
}

// Computes, for one chunk and each channel, the mean of x and the sum of squared deviations from this mean.
template <class T>
void chunk_moments(const Extent& e, const T* x, std::int64_t chunk, const Partial& partial) {
  double* const means = partial.first(chunk);
  double* const squares = partial.second(chunk);
  if (!e.by_rows()) {
    for (std::int64_t c = 0; c < e.channels; ++c) {
      const T* plane = x + (chunk * e.channels + c) * e.inner;
      const T mean = sum_of<T>(e.inner, [&](std::int64_t i) { return plane[i]; }) / T(e.inner);
      means[c] = double(mean);
      squares[c] = double(sum_of<T>(e.inner, [&](std::int64_t i) { return (plane[i] - mean) * (plane[i] - mean); }));
    }
    return;
  }
  for (std::int64_t from = 0; from < e.channels; from += kChannelsAtOnce) {
    const std::int64_t count = std::min(kChannelsAtOnce, e.channels - from);
    alignas(64) T mean[kChannelsAtOnce] = {}, square[kChannelsAtOnce] = {};
    rows_of_chunk(e, chunk, from, count, x, [&](const T* row, std::int64_t n) {
      for (std::int64_t c = 0; c < n; ++c) mean[c] += row[c];
    });
    for (std::int64_t c = 0; c < count; ++c) mean[c] /= T(e.rows_of(chunk));
    rows_of_chunk(e, chunk, from, count, x, [&](const T* row, std::int64_t n) {
      for (std::int64_t c = 0; c < n; ++c) square[c] += (row[c] - mean[c]) * (row[c] - mean[c]);
    });
    for (std::int64_t c = 0; c < count; ++c) {
      means[from + c] = double(mean[c]);
      squares[from + c] = double(square[c]);
    }
  }
}

// Computes, for one chunk and each channel, the sums of g and of g * (x - mean).
template <class T>
void chunk_sums(const Extent& e, const T* g, const T* x, const T* mean, std::int64_t chunk, const Partial& partial) {
  double* const sums = partial.first(chunk);
  double* const products = partial.second(chunk);
  if (!e.by_rows()) {
    for (std::int64_t c = 0; c < e.channels; ++c) {
      const std::int64_t at = (chunk * e.channels + c) * e.inner;
      sums[c] = double(sum_of<T>(e.inner, [&](std::int64_t i) { return g[at + i]; }));
      products[c] = double(sum_of<T>(e.inner, [&](std::int64_t i) { return g[at + i] * (x[at + i] - mean[c]); }));
    }
    return;
  }
  for (std::int64_t from = 0; from < e.channels; from += kChannelsAtOnce) {
    const std::int64_t count = std::min(kChannelsAtOnce, e.channels - from);
    alignas(64) T sum[kChannelsAtOnce] = {}, product[kChannelsAtOnce] = {};
    rows_of_chunk(e, chunk, from, count, x, [&](const T* row, std::int64_t n) {
      const T* gradient = g + (row - x);
      for (std::int64_t c = 0; c < n; ++c) {
        sum[c] += gradient[c];
        product[c] += gradient[c] * (row[c] - mean[from + c]);
      }
    });
    for (std::int64_t c = 0; c < count; ++c) {
      sums[from + c] = double(sum[c]);
      products[from + c] = double(product[c]);
    }
  }
}

// Calls f(i, channel) for all elements; i is the element's index in memory.
template <class T, class F>
void for_elements(const KernelContext& context, const Extent& e, const F& f) {
  vectorized_for(context, e.chunks(), e.grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk)
      for (std::int64_t r = 0; r < e.rows_of(chunk); ++r) {
        const std::int64_t row = (chunk * e.chunk() + r) * e.channels * e.inner;
        if (e.by_rows()) {
          LOCKSTEP_IVDEP
          for (std::int64_t c = 0; c < e.channels; ++c) f(row + c, c);
        } else {
          for (std::int64_t c = 0; c < e.channels; ++c) {
            LOCKSTEP_IVDEP
            for (std::int64_t i = 0; i < e.inner; ++i) f(row + c * e.inner + i, c);
          }
        }
      }
  });
}

template <class T>
T* operand(const FusedOp& op, int place) {
  return static_cast<T*>(op.operands[std::size_t(place)].data);
}

// Per-channel coefficients for a pass over the elements; in the workspace, after the partial sums.
template <class T>
struct PerChannel {
  T *a, *b, *c;
  PerChannel(double* room, std::int64_t channels) : a(reinterpret_cast<T*>(room)), b(a + channels), c(b + channels) {}
};

template <class T>
void normalize_batch(const KernelContext& context, const FusedOp& op, const Extent& e, double* workspace) {
  const T* const x = operand<T>(op, 0);
  const T* const weight = operand<T>(op, 1);
  const T* const bias = operand<T>(op, 2);
  T *const y = operand<T>(op, 3), *const mean = operand<T>(op, 4), *const variance = operand<T>(op, 5);
  const Partial partial = {workspace, e.channels};
  vectorized_for(context, e.chunks(), e.grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) chunk_moments(e, x, chunk, partial);
  });
  // Joins the moments of the chunks, one after another. Chan, Golub, LeVeque: "Algorithms for computing the sample
  // variance", 1983.
  for (std::int64_t chunk = 1; chunk < e.chunks(); ++chunk) {
    const double before = double(chunk * e.chunk() * e.inner), more = double(e.rows_of(chunk) * e.inner);
    const double share = more / (before + more);
    for (std::int64_t c = 0; c < e.channels; ++c) {
      const double distance = partial.first(chunk)[c] - partial.first(0)[c];
      partial.first(0)[c] += distance * share;
      partial.second(0)[c] += partial.second(chunk)[c] + distance * distance * before * share;
    }
  }
  const PerChannel<T> per(workspace + 2 * e.chunks() * e.channels, e.channels);
  for (std::int64_t c = 0; c < e.channels; ++c) {
    const double spread = partial.second(0)[c] / double(e.count());
    mean[c] = T(partial.first(0)[c]);
    variance[c] = T(spread);
    per.a[c] = T((weight ? double(weight[c]) : 1) / std::sqrt(spread + op.epsilon));
    per.b[c] = bias ? bias[c] : T(0);
  }
  for_elements<T>(context, e, [=](std::int64_t i, std::int64_t c) { y[i] = (x[i] - mean[c]) * per.a[c] + per.b[c]; });
}

template <class T>
void normalize_batch_gradient(const KernelContext& context, const FusedOp& op, const Extent& e, double* workspace) {
  const T *const g = operand<T>(op, 0), *const x = operand<T>(op, 1), *const weight = operand<T>(op, 2);
  const T *const mean = operand<T>(op, 3), *const variance = operand<T>(op, 4);
  T *const of_x = operand<T>(op, 5), *const of_weight = operand<T>(op, 6), *const of_bias = operand<T>(op, 7);
  const Partial partial = {workspace, e.channels};
  vectorized_for(context, e.chunks(), e.grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) chunk_sums(e, g, x, mean, chunk, partial);
  });
  for (std::int64_t chunk = 1; chunk < e.chunks(); ++chunk)
    for (std::int64_t c = 0; c < 2 * e.channels; ++c) partial.first(0)[c] += partial.first(chunk)[c];
  const PerChannel<T> per(workspace + 2 * e.chunks() * e.channels, e.channels);
  for (std::int64_t c = 0; c < e.channels; ++c) {
    const double sum = partial.first(0)[c], product = partial.second(0)[c];
    const double scale = 1 / std::sqrt(double(variance[c]) + op.epsilon);
    of_weight[c] = T(product * scale);
    of_bias[c] = T(sum);
    per.a[c] = T((weight ? double(weight[c]) : 1) * scale);
    per.b[c] = T(sum / double(e.count()));
    per.c[c] = T(product * scale * scale / double(e.count()));
  }
  for_elements<T>(context, e, [=](std::int64_t i, std::int64_t c) {
    of_x[i] = per.a[c] * (g[i] - per.b[c] - (x[i] - mean[c]) * per.c[c]);
  });
}

}  // namespace

std::optional<std::size_t> batch_norm_workspace_size(const FusedOp& op) {
  const bool backward = op.kind == FusedKind::batch_norm_gradient;
  const FusedOperand& x = op.operands[backward ? 1 : 0];
  const std::optional<Extent> extent = extent_of(x);
  if (!extent || (x.dtype != kFloat32 && x.dtype != kFloat64)) return std::nullopt;
  for (const FusedOperand& other : op.operands) {
    if (!other.present) continue;
    if (other.dtype != x.dtype) return std::nullopt;
    if (other.sizes.rank() == 1 ? !is_row_major(other) : extent_of(other) != extent) return std::nullopt;
  }
  return std::size_t(extent->channels) * (2 * std::size_t(extent->chunks()) + 3) * sizeof(double);
}

void batch_norm(const KernelContext& context, const FusedOp& op, void* workspace) {
  const bool backward = op.kind == FusedKind::batch_norm_gradient, wide = op.operands[0].dtype == kFloat64;
  const Extent extent = *extent_of(op.operands[backward ? 1 : 0]);
  auto* const room = static_cast<double*>(workspace);
  if (backward)
    return wide ? normalize_batch_gradient<double>(context, op, extent, room)
                : normalize_batch_gradient<float>(context, op, extent, room);
  return wide ? normalize_batch<double>(context, op, extent, room) : normalize_batch<float>(context, op, extent, room);
}

}  // namespace lockstep::host
