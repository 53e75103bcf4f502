// The gradients of layer_norm and rms_norm over dense rows: of x, and of weight and bias, which are sums over the rows.
// The statistics of a row are made again, which moves fewer bytes than to keep them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <lockstep/tensor/kernels/row_team.h>

#include "ops/wide.h"
#include "runtime/host/parallel.h"
#include "tensor/kernels/launch.h"

namespace lockstep {

/// What the gradient of a row's x takes from the row: with y = (x - mean) scale and h = g weight it is
/// scale (h - shift - y slope).
template <class C>
struct NormFacts {
  C mean, scale, shift, slope;

  LOCKSTEP_HD C normal(C x) const { return (x - mean) * scale; }
  LOCKSTEP_HD C gradient(C h, C x) const { return scale * (h - shift - normal(x) * slope); }
};

/// The mean and 1 / sqrt(variance + eps) of layer_norm; 0 and 1 / sqrt(mean of squares + eps) of rms_norm.
/// sum(value) adds value(i) over the row.
template <bool kCentered, class C, class Sum, class X>
LOCKSTEP_HD void find_scale(NormFacts<C>& facts, std::int64_t length, C eps, const Sum& sum, const X& x) {
  facts.mean = 0;
  if constexpr (kCentered) facts.mean = sum([&](auto i) { return x(i); }) / C(length);
  const C mean = facts.mean;
  const C squares = sum([&](auto i) { return (x(i) - mean) * (x(i) - mean); });
  facts.scale = C(1) / std::sqrt(squares / C(length) + eps);
}

/// What else the gradient takes: after find_scale. h(i): the gradient with respect to y(i).
template <bool kCentered, class C, class Sum, class X, class H>
LOCKSTEP_HD void find_slope(NormFacts<C>& facts, std::int64_t length, const Sum& sum, const X& x, const H& h) {
  const C mean = facts.mean, scale = facts.scale;
  if constexpr (kCentered) {
    const auto [total, along] = sum([&](auto i) { return TwoSums<C>{h(i), h(i) * (x(i) - mean) * scale}; });
    facts.shift = total / C(length);
    facts.slope = along / C(length);
  } else {
    facts.shift = 0;
    facts.slope = sum([&](auto i) { return h(i) * (x(i) - mean) * scale; }) / C(length);
  }
}

/// The gradient of x alone, by map_rows.
template <class T, bool kCentered>
struct NormInputGradient {
  using C = ComputeType<T>;
  C eps;
  bool weighted;
  template <class Team, class To, class From>
  LOCKSTEP_HD void operator()(const Team& team, To out, From from_g, From from_x, From weight) const {
    const auto &g = team.kept(from_g), &x = team.kept(from_x);
    const auto sum = [&](const auto& value) { return sum_over(team, x.length, value); };
    const auto h = [&](auto i) { return weighted ? C(g[i]) * C(weight[i]) : C(g[i]); };
    const auto value = [&](auto i) { return C(x[i]); };
    NormFacts<C> facts;
    find_scale<kCentered>(facts, x.length, eps, sum, value);
    find_slope<kCentered>(facts, x.length, sum, value, h);
    team.fill(out, [&](auto i) { return T(facts.gradient(h(i), value(i))); });
  }
};

/// All gradients. The sums over the rows are made of some rows at a time, then added: on a GPU by a second grid
/// (ops/norm_gradient_cuda.h).
template <class Element, bool kHasMean>
struct NormGradientKernel {
  using T = Element;
  using C = ComputeType<T>;
  static constexpr bool kCentered = kHasMean;
  static constexpr int kSums = kCentered ? 2 : 1;  // of g y, and of g

  C eps;
  const T *g, *x, *weight;  // [rows, length], [length] or null
  T* of_x;                  // null where nobody asks
  T *of_weight, *of_bias;   // [length]
  C* partial;               // [pieces, kSums, length]
  std::int64_t rows, length, rows_of_piece;

  /// How many rows are added by themselves: enough pieces for the cores, or for the warps of a GPU.
  static std::int64_t rows_at_once(std::int64_t rows, bool on_grid) {
    return on_grid ? std::clamp<std::int64_t>(rows / 1024, 4, 64) : std::clamp<std::int64_t>(rows / 64, 8, kChain);
  }
  LOCKSTEP_HD std::int64_t pieces() const { return (rows + rows_of_piece - 1) / rows_of_piece; }
  LOCKSTEP_HD C weighted(C value, std::int64_t i) const { return weight ? value * C(weight[i]) : value; }

  void operator()(const KernelContext& context) const {
    const std::int64_t grain = (1 << 14) / (rows_of_piece * length) + 1;
    host::vectorized_for(context, pieces(), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        C* const sums = partial + kSums * piece * length;
        std::fill_n(sums, kSums * length, C(0));
        const std::int64_t last = std::min(rows, (piece + 1) * rows_of_piece);
        for (std::int64_t r = piece * rows_of_piece; r < last; ++r) row(r, sums);
      }
    });
    host::vectorized_for(context, kSums * length, (1 << 14) / pieces() + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        double sum = 0;
        for (std::int64_t piece = 0; piece < pieces(); ++piece) sum += double(partial[piece * kSums * length + c]);
        store(c, sum);
      }
    });
  }

  /// A sum over all rows; c counts through products, then sums.
  LOCKSTEP_HD void store(std::int64_t c, double sum) const {
    if (c < length)
      of_weight[c] = T(sum);
    else
      of_bias[c - length] = T(sum);
  }

 private:
  void row(std::int64_t r, C* sums) const {
    const T *const g_row = g + r * length, *const x_row = x + r * length;
    const auto value = [&](std::int64_t i) { return C(x_row[i]); };
    const auto h = [&](std::int64_t i) { return weighted(C(g_row[i]), i); };
    const auto sum = [&](const auto& term) { return sum_over(OneThread(), length, term); };
    NormFacts<C> facts;
    find_scale<kCentered>(facts, length, eps, sum, value);
    if (of_x) {
      find_slope<kCentered>(facts, length, sum, value, h);
      T* const out = of_x + r * length;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < length; ++i) out[i] = T(facts.gradient(h(i), value(i)));
    }
#pragma GCC ivdep
    for (std::int64_t i = 0; i < length; ++i) {
      sums[i] += C(g_row[i]) * facts.normal(value(i));
      if constexpr (kSums > 1) sums[length + i] += C(g_row[i]);
    }
  }
};

/// x and g: [rows, length], dense; weight: [length], or undefined. An undefined of_x is not made.
template <class T, bool kCentered>
void norm_gradients(const char* name, double eps, const Tensor& g, const Tensor& x, const Tensor& weight,
                    const Tensor& of_x, const Tensor& of_weight, const Tensor& of_bias) {
  using Kernel = NormGradientKernel<T, kCentered>;
  using C = typename Kernel::C;
  DeviceState& device = *x.impl()->storage->device;
  const auto data = [](const Tensor& tensor) {
    return tensor.defined() ? reinterpret_cast<T*>(tensor.impl()->data()) : nullptr;
  };
  const std::int64_t rows = x.sizes()[0], length = x.sizes()[1];
  Kernel kernel{C(eps),
                data(g),
                data(x),
                data(weight),
                data(of_x),
                data(of_weight),
                data(of_bias),
                nullptr,
                rows,
                length,
                Kernel::rows_at_once(rows, device.backend.launches_grids())};
  const Tensor partial = make_tensor(device, {kernel.pieces(), Kernel::kSums, length}, wide_dtype(x.dtype()));
  kernel.partial = reinterpret_cast<C*>(partial.impl()->data());
  launch(
      name, 18 * double(rows * length),
      std::array{&partial, &of_weight, of_bias.defined() ? &of_bias : &of_weight, of_x.defined() ? &of_x : &of_weight},
      std::array{&g, &x, weight.defined() ? &weight : &of_weight}, kernel);
}

}  // namespace lockstep

#ifdef LOCKSTEP_DEVICE_FORMS
#include "ops/norm_gradient_cuda.h"
#endif
