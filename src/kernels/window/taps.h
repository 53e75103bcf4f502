// Taps: the windows of pooling or interpolation along one spatial dimension. Taps gives the input positions (taps) of
// each output position, their weights, and the output positions that use an input position. Kernels hold it by value;
// all functions may run on a GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <lockstep/core/dtype.h>

namespace lockstep {

/// The positions first, first + step, ..., `count` of them.
struct Span {
  std::int64_t first, count, step;
};

struct Taps {
  enum class Kind : std::uint8_t { window, adaptive, nearest, nearest_exact, linear, cubic };
  /// The divisor of a sum over a window: the number `divisor`, the count of the window's elements with padding, or
  /// their count without padding.
  enum class Divide : std::uint8_t { by_number, with_padding, inside };

  Kind kind = Kind::window;
  Divide divide = Divide::by_number;
  bool align_corners = false;
  std::int64_t in = 1, out = 1;
  std::int64_t size = 1, stride = 1, padding = 0, dilation = 1;  ///< Used by Kind::window.
  std::int64_t divisor = 1;
  double scale = 1;  ///< Used by interpolation: input positions per output position.

  /// The taps of a dimension of `places` positions in which windows have size 1 and stride 1.
  static Taps identity(std::int64_t places) {
    Taps taps;
    taps.in = taps.out = places;
    return taps;
  }
  bool is_identity() const {
    return kind == Kind::window && in == out && size == 1 && stride == 1 && padding == 0 && divisor == 1 &&
           divide == Divide::by_number;
  }

  /// The input positions of output position o.
  LOCKSTEP_HD Span inputs(std::int64_t o) const {
    if (kind == Kind::window) {
      const std::int64_t start = o * stride - padding;
      const std::int64_t skipped = start < 0 ? (-start + dilation - 1) / dilation : 0;
      const std::int64_t first = start + skipped * dilation;
      const std::int64_t end = std::min(start + (size - 1) * dilation + 1, in);
      return {first, first < end ? (end - first + dilation - 1) / dilation : 0, dilation};
    }
    if (kind == Kind::adaptive) {
      const std::int64_t first = o * in / out;
      return {first, ((o + 1) * in + out - 1) / out - first, 1};
    }
    if (kind == Kind::nearest || kind == Kind::nearest_exact) return {nearest(o), 1, 1};
    const std::int64_t floor = std::int64_t(std::floor(source(o)));
    const int before = kind == Kind::cubic ? 1 : 0, after = kind == Kind::cubic ? 2 : 1;
    const std::int64_t first = inside(floor - before);
    return {first, inside(floor + after) - first + 1, 1};
  }

  /// A range of output positions that contains all that use input position i.
  LOCKSTEP_HD Span outputs(std::int64_t i) const {
    if (kind == Kind::window) {
      const std::int64_t past = i + padding - (size - 1) * dilation;  // the start of the first window that reaches i
      const std::int64_t first = past > 0 ? (past + stride - 1) / stride : 0;
      const std::int64_t end = std::min((i + padding) / stride + 1, out);
      return {first, std::max<std::int64_t>(end - first, 0), 1};
    }
    if (kind == Kind::adaptive) {
      const std::int64_t first = i * out / in;
      return {first, ((i + 1) * out + in - 1) / in - first, 1};
    }
    if (!(scale > 0)) return {0, out, 1};
    const int reach = kind == Kind::cubic ? 3 : 2;
    const std::int64_t first = i == 0 ? 0 : std::int64_t(std::floor(double(i - reach) / scale)) - 1;
    const std::int64_t end = i == in - 1 ? out : std::int64_t(std::ceil(double(i + reach) / scale)) + 1;
    const std::int64_t from = std::min(std::max<std::int64_t>(first, 0), out);
    return {from, std::max<std::int64_t>(std::min(end, out) - from, 0), 1};
  }

  /// The weight of input position i in output position o; 0 if o does not use i.
  template <class A>
  LOCKSTEP_HD A weight(std::int64_t o, std::int64_t i) const {
    if (kind == Kind::window || kind == Kind::adaptive) {
      const Span span = inputs(o);
      const std::int64_t from = i - span.first;
      return A(from >= 0 && from <= (span.count - 1) * span.step && from % span.step == 0);
    }
    if (kind == Kind::nearest || kind == Kind::nearest_exact) return A(nearest(o) == i);
    const double at = source(o), floor = std::floor(at);
    const A t = A(at - floor);
    const std::int64_t left = std::int64_t(floor);
    if (kind == Kind::linear) return (inside(left) == i ? 1 - t : A(0)) + (inside(left + 1) == i ? t : A(0));
    A sum = 0;
    for (int k = -1; k <= 2; ++k)
      if (inside(left + k) == i) sum += cubic(k < 0 ? t + 1 : k == 0 ? t : k - t);
    return sum;
  }

  /// The divisor of the sum for output position o.
  LOCKSTEP_HD std::int64_t divisor_of(std::int64_t o) const {
    if (divide == Divide::by_number) return divisor;
    if (divide == Divide::inside) return inputs(o).count;
    const std::int64_t start = o * stride - padding;
    return std::min(start + size, in + padding) - start;
  }

 private:
  LOCKSTEP_HD std::int64_t inside(std::int64_t i) const { return std::min(std::max<std::int64_t>(i, 0), in - 1); }

  // Computed in float, as in PyTorch, because rounding decides which position is nearest.
  LOCKSTEP_HD std::int64_t nearest(std::int64_t o) const {
    const float at = kind == Kind::nearest ? float(o) * float(scale) : (float(o) + 0.5f) * float(scale);
    return inside(std::int64_t(std::floor(at)));
  }

  LOCKSTEP_HD double source(std::int64_t o) const {
    if (align_corners) return double(o) * scale;
    const double at = (double(o) + 0.5) * scale - 0.5;
    return kind == Kind::cubic ? at : std::max(at, 0.0);
  }

  // Keys' cubic convolution with A = -0.75, at a distance of at most 2.
  template <class A>
  LOCKSTEP_HD static A cubic(A distance) {
    const A a = A(-0.75);
    return distance <= 1 ? ((a + 2) * distance - (a + 3)) * distance * distance + 1
                         : ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
  }
};

}  // namespace lockstep
