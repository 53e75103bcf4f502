// im2col and col2im. The planes are row-major (window.h); the columns of a plane are [elements of a window, outputs].
#pragma once

#include <algorithm>
#include <vector>

#include <lockstep/core/float16_rows.h>

#include "kernels/window/window.h"

namespace lockstep {

/// The positions of windows, which im2col and col2im share.
struct WindowColumns {
  WindowPlanes windows;

  LOCKSTEP_HD std::int64_t elements() const {
    const std::array<Taps, 4>& axes = windows.axes;
    return axes[0].size * axes[1].size * axes[2].size * axes[3].size;
  }
  /// The indices along each axis of element `k` of a window.
  LOCKSTEP_HD std::array<std::int64_t, 4> element_place(std::int64_t k) const {
    const std::array<Taps, 4>& axes = windows.axes;
    const std::int64_t row = k / axes[3].size, line = row / axes[2].size;
    return {line / axes[1].size, line % axes[1].size, row % axes[2].size, k % axes[3].size};
  }
  /// The input position of element k of window o. The position may be in the padding.
  LOCKSTEP_HD static std::int64_t input(const Taps& axis, std::int64_t o, std::int64_t k) {
    return o * axis.stride - axis.padding + k * axis.dilation;
  }
  /// The window whose element k is input position i; -1 if there is no such window.
  LOCKSTEP_HD static std::int64_t output(const Taps& axis, std::int64_t i, std::int64_t k) {
    const std::int64_t start = i + axis.padding - k * axis.dilation;
    if (start < 0 || start % axis.stride != 0 || start / axis.stride >= axis.out) return -1;
    return start / axis.stride;
  }
  /// The range [first, second) of the windows whose element k is not in the padding.
  static std::pair<std::int64_t, std::int64_t> outputs_inside(const Taps& axis, std::int64_t k) {
    const std::int64_t start = k * axis.dilation - axis.padding, room = axis.in - 1 - start;
    const std::int64_t first = std::min(start < 0 ? (axis.stride - 1 - start) / axis.stride : 0, axis.out);
    const std::int64_t end = room < 0 ? 0 : std::min(room / axis.stride + 1, axis.out);
    return {first, std::max(first, end)};
  }
};

/// im2col, with zeros for padding. T: an unsigned integer of the element's size.
template <class T>
struct Im2Col {
  const T* from;
  T* to;
  WindowColumns columns;

  std::int64_t items() const { return columns.windows.planes * columns.elements() * columns.windows.outputs(); }

  LOCKSTEP_HD void item(std::int64_t i) const {
    const std::array<Taps, 4>& axes = columns.windows.axes;
    const std::int64_t outputs = columns.windows.outputs(), column = i / outputs;
    const auto o = columns.windows.output_place(i % outputs), k = columns.element_place(column % columns.elements());
    std::int64_t place = column / columns.elements();
    for (std::size_t d = 0; d < 4; ++d) {
      const std::int64_t at = WindowColumns::input(axes[d], o[d], k[d]);
      if (at < 0 || at >= axes[d].in) {
        to[i] = T(0);
        return;
      }
      place = place * axes[d].in + at;
    }
    to[i] = from[place];
  }

  // Copies row by row. A row has one element of each window along the last axis.
  void operator()(const KernelContext& context) const {
    const WindowPlanes& windows = columns.windows;
    const std::int64_t rows = windows.output_rows(), length = windows.axes[3].out;
    host::vectorized_for(context, windows.planes * columns.elements() * rows, (1 << 14) / length + 1,
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t r = begin; r < end; ++r) copy_row(r / rows, r % rows, to + r * length);
                         });
  }

 private:
  void copy_row(std::int64_t column, std::int64_t row, T* target) const {
    const std::array<Taps, 4>& axes = columns.windows.axes;
    const Taps& along = axes[3];
    const auto o = columns.windows.output_place(row * along.out),
               k = columns.element_place(column % columns.elements());
    std::int64_t line = column / columns.elements();
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t at = WindowColumns::input(axes[d], o[d], k[d]);
      if (at < 0 || at >= axes[d].in) {
        std::fill_n(target, along.out, T(0));
        return;
      }
      line = line * axes[d].in + at;
    }
    const auto [first, end] = WindowColumns::outputs_inside(along, k[3]);
    const T* const source = from + line * along.in;
    std::fill_n(target, first, T(0));
    if (along.stride == 1)
      std::copy_n(source + WindowColumns::input(along, first, k[3]), end - first, target + first);
    else
      for (std::int64_t i = first; i < end; ++i) target[i] = source[WindowColumns::input(along, i, k[3])];
    std::fill_n(target + end, along.out - end, T(0));
  }
};

/// col2im: each input is the sum of its elements in the columns, in the order of the windows' elements.
template <class T>
struct Col2Im {
  using A = ComputeType<T>;

  const T* from;
  T* to;
  WindowColumns columns;

  std::int64_t items() const { return columns.windows.planes * columns.windows.inputs(); }

  LOCKSTEP_HD void item(std::int64_t i) const {
    const std::array<Taps, 4>& axes = columns.windows.axes;
    const std::int64_t inputs = columns.windows.inputs(), outputs = columns.windows.outputs();
    const auto at = columns.windows.input_place(i % inputs);
    const T* const plane = from + i / inputs * columns.elements() * outputs;
    A sum = 0;
    for (std::int64_t k = 0; k < columns.elements(); ++k) {
      const auto element = columns.element_place(k);
      std::int64_t window = 0;
      for (std::size_t d = 0; window >= 0 && d < 4; ++d) {
        const std::int64_t o = WindowColumns::output(axes[d], at[d], element[d]);
        window = o < 0 ? -1 : window * axes[d].out + o;
      }
      if (window >= 0) sum += A(plane[k * outputs + window]);
    }
    to[i] = T(sum);
  }

  void operator()(const KernelContext& context) const {
    const WindowPlanes& windows = columns.windows;
    const std::int64_t rows = windows.input_rows(), length = windows.axes[3].in;
    host::vectorized_for(context, windows.planes * rows, (1 << 14) / (length * columns.elements()) + 1,
                         [&](std::int64_t begin, std::int64_t end) {
                           std::vector<A> sums(std::size_t(kNarrow<T> ? length : 0));
                           for (std::int64_t r = begin; r < end; ++r) {
                             if constexpr (kNarrow<T>) {
                               add_row(r / rows, r % rows, sums.data());
                               lockstep::narrow(sums.data(), length, to + r * length, 1);
                             } else {
                               add_row(r / rows, r % rows, to + r * length);
                             }
                           }
                         });
  }

 private:
  void add_row(std::int64_t plane, std::int64_t row, A* sums) const {
    const std::array<Taps, 4>& axes = columns.windows.axes;
    const Taps& along = axes[3];
    const auto at = columns.windows.input_place(row * along.in);
    std::fill_n(sums, along.in, A(0));
    for (std::int64_t k = 0; k < columns.elements(); ++k) {
      const auto element = columns.element_place(k);
      std::int64_t line = 0;
      for (std::size_t d = 0; line >= 0 && d < 3; ++d) {
        const std::int64_t o = WindowColumns::output(axes[d], at[d], element[d]);
        line = o < 0 ? -1 : line * axes[d].out + o;
      }
      if (line < 0) continue;
      const auto [first, end] = WindowColumns::outputs_inside(along, element[3]);
      const T* const source =
          from + ((plane * columns.elements() + k) * columns.windows.output_rows() + line) * along.out;
      for (std::int64_t o = first; o < end; ++o) sums[WindowColumns::input(along, o, element[3])] += A(source[o]);
    }
  }
};

}  // namespace lockstep
