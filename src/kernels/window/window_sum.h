// Weighted sums over windows: average pooling, interpolation, and the gradients of both.
#pragma once

#include <algorithm>
#include <vector>

#include <lockstep/core/float16_rows.h>
#include <lockstep/core/vectorized.h>

#include "kernels/window/window.h"

namespace lockstep {

/// The taps (source positions and their weights) of all target positions of one axis. The taps of position t are at
/// [begin[t], begin[t + 1]) in `source` and `weight`.
template <class A>
struct TapTable {
  std::vector<std::int64_t> begin = {0}, source;
  std::vector<A> weight, divisor;
  std::int64_t most = 0;  ///< The most taps of a position.
  bool is_identity;

  /// The targets are the outputs, and their taps are inputs. If `transposed`, the targets are the inputs, and their
  /// taps are outputs, with weights divided by the output's divisor.
  TapTable(const Taps& taps, bool transposed) : is_identity(taps.is_identity()) {
    const std::int64_t targets = transposed ? taps.in : taps.out;
    for (std::int64_t t = 0; t < targets; ++t) {
      const Span span = transposed ? taps.outputs(t) : taps.inputs(t);
      for (std::int64_t k = 0; k < span.count; ++k) {
        const std::int64_t s = span.first + k * span.step;
        const A w = transposed ? taps.weight<A>(s, t) / A(taps.divisor_of(s)) : taps.weight<A>(t, s);
        if (w == 0) continue;
        source.push_back(s);
        weight.push_back(w);
      }
      most = std::max(most, std::int64_t(source.size()) - begin.back());
      begin.push_back(std::int64_t(source.size()));
      divisor.push_back(transposed ? A(1) : A(taps.divisor_of(t)));
    }
  }
};

// to[i] = weight * from[i] if `first`, else to[i] += weight * from[i].
template <class A, class T>
[[gnu::noinline]] void weigh_row(const T* from, A weight, std::int64_t count, bool first, A* to) {
  if (first) {
    LOCKSTEP_IVDEP
    for (std::int64_t i = 0; i < count; ++i) to[i] = weight * A(from[i]);
  } else {
    LOCKSTEP_IVDEP
    for (std::int64_t i = 0; i < count; ++i) to[i] += weight * A(from[i]);
  }
}

template <class A>
[[gnu::noinline]] void divide_row(const A* from, A divisor, std::int64_t count, A* to) {
  LOCKSTEP_IVDEP
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] / divisor;
}

// Sums along the row. Each position has kTaps taps, or any number if kTaps is 0.
template <int kTaps, class A>
[[gnu::noinline]] void sum_taps(const TapTable<A>& row, const A* from, A divisor, A* to) {
  const std::int64_t* const begin = row.begin.data();
  const std::int64_t* const source = row.source.data();
  const A* const weight = row.weight.data();
  for (std::size_t t = 0; t < row.divisor.size(); ++t) {
    A sum = 0;
    if constexpr (kTaps > 0)
      for (int k = 0; k < kTaps; ++k) sum += weight[t * kTaps + k] * from[source[t * kTaps + k]];
    else
      for (std::int64_t k = begin[t]; k < begin[t + 1]; ++k) sum += weight[k] * from[source[k]];
    to[t] = sum / (divisor * row.divisor[t]);
  }
}

/// Weighted sums over windows, from inputs to outputs; or, if `transposed`, from outputs to inputs, which is the
/// gradient.
template <class T>
struct WindowSum {
  using A = ComputeType<T>;
  static constexpr std::int64_t kGrain = 1 << 14;  // up to this many elements are not divided between tasks

  const T* from;
  T* to;
  WindowPlanes windows;
  bool transposed;

  std::int64_t items() const { return windows.planes * (transposed ? windows.inputs() : windows.outputs()); }

  LOCKSTEP_HD void item(std::int64_t i) const {
    if (transposed)
      gather_gradient(i);
    else
      sum_window(i);
  }

  void operator()(const KernelContext& context) const {
    const TapTable<A> tables[4] = {{windows.axes[0], transposed},
                                   {windows.axes[1], transposed},
                                   {windows.axes[2], transposed},
                                   {windows.axes[3], transposed}};
    const std::int64_t rows = transposed ? windows.input_rows() : windows.output_rows();
    const std::int64_t taps = tables[0].most * tables[1].most * tables[2].most;
    const std::int64_t cost = source_row() * std::max<std::int64_t>(taps, 1) + target_row();
    host::vectorized_for(context, windows.planes * rows, kGrain / cost + 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<A> sum(static_cast<std::size_t>(source_row()));
      std::vector<A> result(static_cast<std::size_t>(kNarrow<T> ? target_row() : 0));
      for (std::int64_t r = begin; r < end; ++r) {
        T* const target = to + r * target_row();
        if constexpr (kNarrow<T>) {
          make_row(tables, r / rows, r % rows, sum.data(), result.data());
          lockstep::narrow(result.data(), target_row(), target, 1);
        } else {
          make_row(tables, r / rows, r % rows, sum.data(), target);
        }
      }
    });
  }

 private:
  LOCKSTEP_HD std::int64_t source_row() const { return transposed ? windows.axes[3].out : windows.axes[3].in; }
  LOCKSTEP_HD std::int64_t target_row() const { return transposed ? windows.axes[3].in : windows.axes[3].out; }

  // Makes one row of the result: adds the input rows of its windows, weighted, then sums along that row.
  void make_row(const TapTable<A> (&tables)[4], std::int64_t plane, std::int64_t row, A* buffer, A* result) const {
    const std::int64_t lines = transposed ? windows.axes[2].in : windows.axes[2].out;
    const std::int64_t layers = transposed ? windows.axes[1].in : windows.axes[1].out;
    const std::size_t at[3] = {std::size_t(row / lines / layers), std::size_t(row / lines % layers),
                               std::size_t(row % lines)};
    const Taps &second = windows.axes[1], &third = windows.axes[2];
    const T* const source = from + plane * (transposed ? windows.outputs() : windows.inputs());
    bool first = true;
    for (std::int64_t a = tables[0].begin[at[0]]; a < tables[0].begin[at[0] + 1]; ++a)
      for (std::int64_t b = tables[1].begin[at[1]]; b < tables[1].begin[at[1] + 1]; ++b)
        for (std::int64_t c = tables[2].begin[at[2]]; c < tables[2].begin[at[2] + 1]; ++c) {
          const std::int64_t layer = tables[0].source[std::size_t(a)] * (transposed ? second.out : second.in) +
                                     tables[1].source[std::size_t(b)];
          const std::int64_t line = layer * (transposed ? third.out : third.in) + tables[2].source[std::size_t(c)];
          const A weight =
              tables[0].weight[std::size_t(a)] * tables[1].weight[std::size_t(b)] * tables[2].weight[std::size_t(c)];
          weigh_row(source + line * source_row(), weight, source_row(), first, buffer);
          first = false;
        }
    if (first) std::fill_n(buffer, source_row(), A(0));
    along_row(tables[3], buffer, tables[0].divisor[at[0]] * tables[1].divisor[at[1]] * tables[2].divisor[at[2]],
              result);
  }

  static void along_row(const TapTable<A>& row, const A* from, A divisor, A* to) {
    const auto targets = std::int64_t(row.divisor.size());
    if (row.is_identity) return divide_row(from, divisor, targets, to);
    const bool even = std::int64_t(row.source.size()) == targets * row.most;
    if (even && row.most == 1) return sum_taps<1>(row, from, divisor, to);
    if (even && row.most == 2) return sum_taps<2>(row, from, divisor, to);
    if (even && row.most == 3) return sum_taps<3>(row, from, divisor, to);
    sum_taps<0>(row, from, divisor, to);
  }

  LOCKSTEP_HD A divisor(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
    return A(windows.axes[0].divisor_of(a)) * A(windows.axes[1].divisor_of(b)) * A(windows.axes[2].divisor_of(c)) *
           A(windows.axes[3].divisor_of(d));
  }

  LOCKSTEP_HD void sum_window(std::int64_t i) const {
    const std::array<Taps, 4>& axes = windows.axes;
    const auto at = windows.output_place(i % windows.outputs());
    const T* const plane = from + i / windows.outputs() * windows.inputs();
    const Span spans[4] = {axes[0].inputs(at[0]), axes[1].inputs(at[1]), axes[2].inputs(at[2]), axes[3].inputs(at[3])};
    A sum = 0;
    for_each_place(spans, [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
      const A w = axes[0].weight<A>(at[0], a) * axes[1].weight<A>(at[1], b) * axes[2].weight<A>(at[2], c) *
                  axes[3].weight<A>(at[3], d);
      if (w != 0) sum += w * A(plane[((a * axes[1].in + b) * axes[2].in + c) * axes[3].in + d]);
    });
    to[i] = T(sum / divisor(at[0], at[1], at[2], at[3]));
  }

  LOCKSTEP_HD void gather_gradient(std::int64_t i) const {
    const std::array<Taps, 4>& axes = windows.axes;
    const auto at = windows.input_place(i % windows.inputs());
    const T* const plane = from + i / windows.inputs() * windows.outputs();
    const Span spans[4] = {axes[0].outputs(at[0]), axes[1].outputs(at[1]), axes[2].outputs(at[2]),
                           axes[3].outputs(at[3])};
    A sum = 0;
    for_each_place(spans, [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
      const A w = axes[0].weight<A>(a, at[0]) * axes[1].weight<A>(b, at[1]) * axes[2].weight<A>(c, at[2]) *
                  axes[3].weight<A>(d, at[3]);
      if (w != 0)
        sum += w * A(plane[((a * axes[1].out + b) * axes[2].out + c) * axes[3].out + d]) / divisor(a, b, c, d);
    });
    to[i] = T(sum);
  }
};

}  // namespace lockstep
