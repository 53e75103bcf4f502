// Max-pooling with indices, its gradient (adds to the indexed inputs), and the gradient's gradient (picks the indexed
// inputs).
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include <lockstep/core/float16_rows.h>
#include <lockstep/core/vectorized.h>

#include "kernels/window/window.h"

namespace lockstep {

/// The lowest value of T: -infinity if T has it.
template <class T>
LOCKSTEP_HD constexpr T lowest() {
  if constexpr (std::numeric_limits<T>::has_infinity)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::lowest();
}

// Updates the maxima so far with one row of a window. Stores the row's number for each element that is greater than the
// maximum so far, or NaN.
template <bool kPlaces, class A, class T>
[[gnu::noinline]] void keep_greater(const T* from, std::int32_t row, std::int64_t count, A* best, std::int32_t* rows) {
  LOCKSTEP_IVDEP
  for (std::int64_t i = 0; i < count; ++i) {
    const A value = A(from[i]);
    const bool taken = value > best[i] || value != value;
    best[i] = taken ? value : best[i];
    if constexpr (kPlaces) rows[i] = taken ? row : rows[i];
  }
}

/// to = the maximum of each window. places (may be null) = the index of the maximum (of the first, if several elements
/// are equal) in its plane, counted over the spatial dimensions; -1 for a window without elements.
template <class T>
struct WindowMax {
  using A = ComputeType<T>;
  static constexpr std::int64_t kGrain = 1 << 13;  // up to this many elements are not divided between tasks

  const T* from;
  T* to;
  std::int64_t* places;
  WindowPlanes windows;

  std::int64_t items() const { return windows.planes * windows.outputs(); }

  LOCKSTEP_HD void item(std::int64_t i) const {
    const std::array<Taps, 4>& axes = windows.axes;
    const auto at = windows.output_place(i % windows.outputs());
    const T* const plane = from + i / windows.outputs() * windows.inputs();
    const Span spans[4] = {axes[0].inputs(at[0]), axes[1].inputs(at[1]), axes[2].inputs(at[2]), axes[3].inputs(at[3])};
    A best = lowest<A>();
    std::int64_t best_at = -1;
    for_each_place(spans, [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
      const std::int64_t row = (a * axes[1].in + b) * axes[2].in + c;
      const A value = A(plane[row * axes[3].in + d]);
      if (best_at >= 0 && !(value > best || value != value)) return;
      best = value;
      best_at = windows.row_is_spatial ? row * axes[3].in + d : row;
    });
    to[i] = T(best);
    if (places) places[i] = best_at;
  }

  void operator()(const KernelContext& context) const {
    const std::int64_t rows = windows.output_rows(), width = windows.axes[3].in;
    const std::int64_t window = windows.axes[0].size * windows.axes[1].size * windows.axes[2].size + 1;
    host::vectorized_for(context, windows.planes * rows, kGrain / (width * window) + 1,
                         [&](std::int64_t begin, std::int64_t end) {
                           Buffers buffers(width, windows.axes[3]);
                           for (std::int64_t r = begin; r < end; ++r)
                             if (places)
                               make_row<true>(buffers, r / rows, r % rows);
                             else
                               make_row<false>(buffers, r / rows, r % rows);
                         });
  }

 private:
  struct Buffers {
    std::vector<A> best;
    std::vector<std::int32_t> rows;
    std::vector<Span> spans;  // the windows along the row

    Buffers(std::int64_t width, const Taps& row) : best(std::size_t(width)), rows(std::size_t(width)) {
      for (std::int64_t o = 0; o < row.out; ++o) spans.push_back(row.inputs(o));
    }
  };

  // Makes one row of the result: takes the maxima over the input rows of its windows, then the maxima along that row.
  template <bool kPlaces>
  void make_row(Buffers& buffers, std::int64_t plane, std::int64_t row) const {
    const std::array<Taps, 4>& axes = windows.axes;
    const std::int64_t line = row / axes[2].out, width = axes[3].in;
    const Span a = axes[0].inputs(line / axes[1].out), b = axes[1].inputs(line % axes[1].out),
               c = axes[2].inputs(row % axes[2].out);
    std::fill_n(buffers.best.data(), width, lowest<A>());
    const bool covers = a.count > 0 && b.count > 0 && c.count > 0;
    const std::int64_t first = covers ? (a.first * axes[1].in + b.first) * axes[2].in + c.first : -1;
    std::fill_n(buffers.rows.data(), width, std::int32_t(first));
    const T* const source = from + plane * windows.inputs();
    for (std::int64_t i = 0; i < a.count; ++i)
      for (std::int64_t j = 0; j < b.count; ++j)
        for (std::int64_t k = 0; k < c.count; ++k) {
          const std::int64_t number =
              ((a.first + i * a.step) * axes[1].in + b.first + j * b.step) * axes[2].in + c.first + k * c.step;
          keep_greater<kPlaces>(source + number * width, std::int32_t(number), width, buffers.best.data(),
                                buffers.rows.data());
        }
    const std::int64_t at = (plane * windows.output_rows() + row) * axes[3].out;
    if (windows.row_is_spatial)
      along_row<kPlaces>(buffers, to + at, kPlaces ? places + at : nullptr);
    else
      as_it_is<kPlaces>(buffers, to + at, kPlaces ? places + at : nullptr);
  }

  template <bool kPlaces>
  static void as_it_is(const Buffers& buffers, T* out, std::int64_t* out_places) {
    for (std::size_t i = 0; i < buffers.best.size(); ++i) {
      out[i] = T(buffers.best[i]);
      if constexpr (kPlaces) out_places[i] = buffers.rows[i];
    }
  }

  template <bool kPlaces>
  [[gnu::noinline]] static void along_row(const Buffers& buffers, T* out, std::int64_t* out_places) {
    const A* const values = buffers.best.data();
    const std::int32_t* const rows = buffers.rows.data();
    const auto width = std::int64_t(buffers.best.size());
    for (std::size_t o = 0; o < buffers.spans.size(); ++o) {
      const Span span = buffers.spans[o];
      if (span.count == 0 || rows[span.first] < 0) {
        out[o] = T(lowest<A>());
        if constexpr (kPlaces) out_places[o] = -1;
        continue;
      }
      A best = values[span.first];
      std::int64_t place = rows[span.first] * width + span.first;
      for (std::int64_t k = 1, i = span.first + span.step; k < span.count; ++k, i += span.step) {
        const A value = values[i];
        if constexpr (kPlaces) {
          const std::int64_t here = rows[i] * width + i;
          const bool taken = value > best || value != value || (value == best && here < place);
          place = taken ? here : place;
          best = taken ? value : best;
        } else {
          best = value > best || value != value ? value : best;
        }
      }
      out[o] = T(best);
      if constexpr (kPlaces) out_places[o] = place;
    }
  }
};

/// The gradient of WindowMax: adds each output's gradient to the input at its index.
template <class T>
struct WindowAdd {
  using A = ComputeType<T>;

  const T* from;
  const std::int64_t* places;
  T* to;
  WindowPlanes windows;

  std::int64_t items() const { return windows.planes * windows.inputs(); }

  LOCKSTEP_HD void item(std::int64_t i) const {
    const std::array<Taps, 4>& axes = windows.axes;
    const std::int64_t offset = i % windows.inputs(), first = i / windows.inputs() * windows.outputs();
    const auto at = windows.input_place(offset);
    const std::int64_t own = windows.row_is_spatial ? offset : offset / axes[3].in;
    const Span spans[4] = {axes[0].outputs(at[0]), axes[1].outputs(at[1]), axes[2].outputs(at[2]),
                           axes[3].outputs(at[3])};
    A sum = 0;
    for_each_place(spans, [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
      const std::int64_t o = first + ((a * axes[1].out + b) * axes[2].out + c) * axes[3].out + d;
      if (places[o] == own) sum += A(from[o]);
    });
    to[i] = T(sum);
  }

  // One thread adds a plane's gradients in the order of the outputs, as item() does. If the channels are the row,
  // several threads share a plane, each with a block of channels.
  void operator()(const KernelContext& context) const {
    constexpr std::int64_t kChannels = 64;
    const std::int64_t row = windows.axes[3].in,
                       blocks = windows.row_is_spatial ? 1 : (row + kChannels - 1) / kChannels;
    const std::int64_t part = windows.inputs() / blocks + 1;
    host::vectorized_for(
        context, windows.planes * blocks, (1 << 14) / part + 1, [&](std::int64_t begin, std::int64_t end) {
          std::vector<A> wide(std::size_t(kNarrow<T> ? windows.inputs() : 0));
          for (std::int64_t n = begin; n < end; ++n) {
            const std::int64_t channel = n % blocks * kChannels;
            add(n / blocks, channel, windows.row_is_spatial ? row : std::min(kChannels, row - channel), wide.data());
          }
        });
  }

 private:
  void add(std::int64_t plane, std::int64_t begin, std::int64_t count, [[maybe_unused]] A* wide) const {
    T* const target = to + plane * windows.inputs();
    A* sums;
    if constexpr (kNarrow<T>)
      sums = wide;
    else
      sums = target;
    const T* const g = from + plane * windows.outputs();
    const std::int64_t* const at = places + plane * windows.outputs();
    const std::int64_t row = windows.axes[3].in, rows = windows.input_rows();
    for (std::int64_t r = 0; r < rows; ++r) std::fill_n(sums + r * row + begin, count, A(0));
    if (windows.row_is_spatial)
      for (std::int64_t o = 0; o < windows.outputs(); ++o) {
        if (at[o] >= 0) sums[at[o]] += A(g[o]);
      }
    else
      for (std::int64_t r = 0; r < windows.output_rows(); ++r)
        for (std::int64_t c = begin; c < begin + count; ++c)
          if (at[r * row + c] >= 0) sums[at[r * row + c] * row + c] += A(g[r * row + c]);
    if constexpr (kNarrow<T>)
      for (std::int64_t r = 0; r < rows; ++r)
        lockstep::narrow(sums + r * row + begin, count, target + r * row + begin, 1);
  }
};

/// The gradient of WindowAdd: each output is the input at its index. T: an unsigned integer of the element's size.
template <class T>
struct WindowPick {
  const T* from;
  const std::int64_t* places;
  T* to;
  WindowPlanes windows;

  std::int64_t items() const { return windows.planes * windows.outputs(); }
  LOCKSTEP_HD void item(std::int64_t i) const {
    const std::int64_t row = windows.axes[3].in;
    const T* const plane = from + i / windows.outputs() * windows.inputs();
    const std::int64_t place = windows.row_is_spatial ? places[i] : places[i] * row + i % row;
    to[i] = places[i] < 0 ? T(0) : plane[place];
  }
  void operator()(const KernelContext& context) const {
    host::vectorized_for(context, items(), 1 << 14, [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) item(i);
    });
  }
};

}  // namespace lockstep
