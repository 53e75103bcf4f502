// The gradients of layer_norm and rms_norm over dense rows: of x, and of weight and bias, which are sums over the rows.
// Computes the statistics of a row again, which moves fewer bytes than saving them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <lockstep/core/vectorized.h>
#include <lockstep/kernels/row_team.h>

#include "cpu/parallel.h"
#include "kernels/launch.h"
#include "kernels/rows/row_buffer.h"
#include "ops/dtypes.h"
#include "ops/norms.h"

namespace lockstep {

/// The statistics of a row that the gradient of its x needs: with y = (x - mean) scale and h = g weight the gradient is
/// scale (h - shift - y slope).
template <class C>
struct NormRowStats {
  C mean, scale, shift, slope;

  LOCKSTEP_HD C normal(C x) const { return (x - mean) * scale; }
  LOCKSTEP_HD C gradient(C h, C x) const { return scale * (h - shift - normal(x) * slope); }
};

/// Sets mean and scale: the mean and 1 / sqrt(variance + eps) for layer_norm; 0 and 1 / sqrt(mean of squares + eps) for
/// rms_norm. sum(value) adds value(i) over the row.
template <bool kCentered, class C, class Sum, class X>
LOCKSTEP_HD void find_scale(NormRowStats<C>& stats, std::int64_t length, C eps, const Sum& sum, const X& x) {
  stats.mean = 0;
  if constexpr (kCentered) stats.mean = sum([&](auto i) { return x(i); }) / C(length);
  const C mean = stats.mean;
  const C squares = sum([&](auto i) { return (x(i) - mean) * (x(i) - mean); });
  stats.scale = C(1) / std::sqrt(squares / C(length) + eps);
}

/// Sets shift and slope, after find_scale. h(i): the gradient with respect to y(i).
template <bool kCentered, class C, class Sum, class X, class H>
LOCKSTEP_HD void find_slope(NormRowStats<C>& stats, std::int64_t length, const Sum& sum, const X& x, const H& h) {
  const C mean = stats.mean, scale = stats.scale;
  if constexpr (kCentered) {
    const auto [total, along] = sum([&](auto i) { return TwoSums<C>{h(i), h(i) * (x(i) - mean) * scale}; });
    stats.shift = total / C(length);
    stats.slope = along / C(length);
  } else {
    stats.shift = 0;
    stats.slope = sum([&](auto i) { return h(i) * (x(i) - mean) * scale; }) / C(length);
  }
}

/// The gradients of weight and bias are summed over some rows at a time; then these partial sums are added, on a GPU in
/// a second grid (ops/norm_gradient_cuda.h). Element: the type of the norm's result and of its gradient g. X: the type
/// of x and its gradient. W: the type of weight, bias and their gradients. kOfSum: x is a sum (ops/add_norm.h), and the
/// kernel has `added` and `of_branch`.
template <class Element, bool kHasMean, class XElement = Element, class WElement = Element, bool kOfSum = false>
struct NormGradientKernel {
  using T = Element;
  using X = XElement;
  using W = WElement;
  using C = ComputeType<T>;
  static constexpr bool kCentered = kHasMean, kHasBranch = kOfSum;
  static constexpr int kSums = kCentered ? 2 : 1;  // the sum of g y, and the sum of g

  C eps;
  const T* g;  // [rows, length], as x
  const X* x;
  const W* weight;         // [length] or null
  X* of_x;                 // null if not needed
  W *of_weight, *of_bias;  // [length]; both null if neither is needed
  C* partial;              // [pieces, kSums, length]; null if of_weight is null
  std::int64_t rows, length, rows_of_piece;
  const X* added = nullptr;  // [rows, length]: added to the gradient of x; null if there is nothing to add
  T* of_branch = nullptr;    // [rows, length]: the gradient of x in type T; null if not needed; needs of_x

  /// The number of rows in a partial sum: few enough that the pieces occupy all cores, or the warps of a GPU. 1 if
  /// there is nothing to sum.
  static std::int64_t rows_at_once(std::int64_t rows, bool on_grid, bool adds) {
    if (!adds) return 1;
    return on_grid ? std::clamp<std::int64_t>(rows / 1024, 4, 64) : std::clamp<std::int64_t>(rows / 64, 8, kChain);
  }
  LOCKSTEP_HD std::int64_t pieces() const { return (rows + rows_of_piece - 1) / rows_of_piece; }
  LOCKSTEP_HD C* sums_of(std::int64_t piece) const { return partial ? partial + kSums * piece * length : nullptr; }
  LOCKSTEP_HD C weighted(C value, std::int64_t i) const { return weight ? value * C(weight[i]) : value; }

  void operator()(const KernelContext& context) const {
    const std::int64_t grain = (1 << 14) / (rows_of_piece * length) + 1;
    host::parallel_for(context, pieces(), grain, [&](std::int64_t begin, std::int64_t end) {
      if (partial) std::fill_n(sums_of(begin), kSums * length * (end - begin), C(0));
      if constexpr (kNarrow<T> || kNarrow<X> || kNarrow<W>)
        take_pieces_in_buffers(begin, end);
      else
        take_pieces(begin, end);
    });
    if (!partial) return;
    host::vectorized_for(context, kSums * length, (1 << 14) / pieces() + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        double sum = 0;
        for (std::int64_t piece = 0; piece < pieces(); ++piece) sum += double(sums_of(piece)[c]);
        store(c, sum);
      }
    });
  }

  /// Writes the gradients of the rows of some pieces, and adds to the pieces' sums.
  void take_pieces(std::int64_t begin, std::int64_t end) const {
    vectorized([&] {
      for (std::int64_t r = begin * rows_of_piece; r < std::min(rows, end * rows_of_piece); ++r)
        row(r, sums_of(r / rows_of_piece));
    });
  }

  /// Stores a sum over all rows; c < length indexes of_weight, larger c of_bias.
  LOCKSTEP_HD void store(std::int64_t c, double sum) const {
    if (c < length)
      of_weight[c] = W(sum);
    else
      of_bias[c - length] = W(sum);
  }

 private:
  // take_pieces() for rows of 16-bit elements, which are converted to float in buffers, some rows at a time.
  void take_pieces_in_buffers(std::int64_t begin, std::int64_t end) const {
    enum { kG, kX, kWeight, kOfX, kAdded, kOperands };
    std::array<host::RowBuffers::Operand, kOperands> operands;
    operands.fill({kStored<X>, length, 1, length});
    operands[kG].stored = kStored<T>;
    operands[kWeight] = {kStored<W>, length, 1, 0};
    const std::int64_t at_once = host::RowBuffers::rows_at_once(length);
    host::RowBuffers buffers(operands, at_once);
    const auto wide = [&](int n, const void* stored) {
      return stored ? reinterpret_cast<C*>(buffers.rows(std::size_t(n))) : nullptr;
    };
    if (weight) buffers.load(kWeight, weight, 0, 1);
    NormGradientKernel<C, kCentered, C, C, kHasBranch> of{
        eps, wide(kG, g), wide(kX, x), wide(kWeight, weight), wide(kOfX, of_x), nullptr, nullptr, nullptr,
        0,   length,      at_once,     wide(kAdded, added)};
    const std::int64_t last = std::min(rows, end * rows_of_piece);
    for (std::int64_t r = begin * rows_of_piece; r < last; r += of.rows) {
      const std::int64_t piece = r / rows_of_piece;
      of.rows = std::min(at_once, (partial ? std::min(last, (piece + 1) * rows_of_piece) : last) - r);
      of.partial = sums_of(piece);
      buffers.load(kG, g, r * length, of.rows);
      buffers.load(kX, x, r * length, of.rows);
      if (added) buffers.load(kAdded, added, r * length, of.rows);
      of.take_pieces(0, 1);
      if (of_x) buffers.store(kOfX, of_x, r * length, of.rows);
      if (of_branch)
        host::moves_of(kStored<T>)
            .store(of.of_x, of.rows * length, reinterpret_cast<std::byte*>(of_branch + r * length), 1);
    }
  }

  LOCKSTEP_INLINE void row(std::int64_t r, C* sums) const {
    const T* const g_row = g + r * length;
    const X* const x_row = x + r * length;
    const auto value = [&](std::int64_t i) { return C(x_row[i]); };
    const auto h = [&](std::int64_t i) { return weighted(C(g_row[i]), i); };
    const auto sum = [&](const auto& term) LOCKSTEP_INLINE { return sum_over(OneThread(), length, term); };
    NormRowStats<C> stats;
    find_scale<kCentered>(stats, length, eps, sum, value);
    if (of_x) {
      find_slope<kCentered>(stats, length, sum, value, h);
      X* const out = of_x + r * length;
      LOCKSTEP_IVDEP
      for (std::int64_t i = 0; i < length; ++i) out[i] = X(stats.gradient(h(i), value(i)));
      if (kHasBranch && added) {
        const X* const added_row = added + r * length;
        LOCKSTEP_IVDEP
        for (std::int64_t i = 0; i < length; ++i) out[i] = X(C(out[i]) + C(added_row[i]));
      }
    }
    if (!sums) return;
    LOCKSTEP_IVDEP
    for (std::int64_t i = 0; i < length; ++i) {
      sums[i] += C(g_row[i]) * stats.normal(value(i));
      if constexpr (kSums > 1) sums[length + i] += C(g_row[i]);
    }
  }
};

/// What the gradients of a norm of x + branch need beside those of a norm. All [rows, length], dense, or undefined.
struct NormBranch {
  Tensor added = {};      ///< Of x's dtype; added to the gradient of x.
  Tensor of_branch = {};  ///< Of g's dtype, which is not x's; gets the gradient of x. Defined only if of_x is.
};

/// x and g: [rows, length], dense; weight: [length], or undefined. Computes only the defined results. of_bias is
/// defined if and only if of_weight is defined and kCentered is true.
template <class T, bool kCentered, class X = T, class W = T, bool kOfSum = false>
void norm_gradients(const char* name, double eps, const Tensor& g, const Tensor& x, const Tensor& weight,
                    const Tensor& of_x, const Tensor& of_weight, const Tensor& of_bias, const NormBranch& branch = {}) {
  using Kernel = NormGradientKernel<T, kCentered, X, W, kOfSum>;
  using C = typename Kernel::C;
  DeviceState& device = *x.impl()->storage->device;
  const std::int64_t rows = x.sizes()[0], length = x.sizes()[1];
  Kernel kernel{C(eps),
                data_or_null<T>(g),
                data_or_null<X>(x),
                data_or_null<W>(weight),
                data_or_null<X>(of_x),
                data_or_null<W>(of_weight),
                data_or_null<W>(of_bias),
                nullptr,
                rows,
                length,
                Kernel::rows_at_once(rows, device.backend.launches_grids(), of_weight.defined()),
                data_or_null<X>(branch.added),
                data_or_null<T>(branch.of_branch)};
  const Tensor partial = of_weight.defined()
                             ? make_tensor(device, {kernel.pieces(), Kernel::kSums, length}, wide_dtype(x.dtype()))
                             : Tensor();
  kernel.partial = data_or_null<C>(partial);
  launch(name, 18 * double(rows * length), std::array{&partial, &of_weight, &of_bias, &of_x, &branch.of_branch},
         std::array{&g, &x, &weight, &branch.added}, kernel);
}

}  // namespace lockstep

#ifdef LOCKSTEP_DEVICE_FORMS
#include "ops/norm_gradient_cuda.h"
#endif
