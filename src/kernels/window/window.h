// Kernels over windows of images (pooling, interpolation) work on planes: dense arrays of four dimensions, [outer,
// outer, outer, row]. In the channels-last layout a plane is an image, and its row is the channels. Otherwise a plane
// is one channel of an image, and its row is the last spatial dimension. Inner loops run over the row. On a GPU a
// thread computes one element. A gradient visits, for each input position, the windows that cover it, so it needs no
// atomics.
#pragma once

#include <array>

#include "cpu/parallel.h"
#include "kernels/launch.h"
#include "kernels/map/map.h"
#include "kernels/window/taps.h"

namespace lockstep {

/// The windows over planes. The last of `axes` is the row.
struct WindowPlanes {
  std::int64_t planes = 1;
  std::array<Taps, 4> axes = {};
  bool row_is_spatial = true;  ///< If false, the row is the channels.

  LOCKSTEP_HD std::int64_t inputs() const { return axes[0].in * axes[1].in * axes[2].in * axes[3].in; }
  LOCKSTEP_HD std::int64_t outputs() const { return axes[0].out * axes[1].out * axes[2].out * axes[3].out; }
  LOCKSTEP_HD std::int64_t input_rows() const { return axes[0].in * axes[1].in * axes[2].in; }
  LOCKSTEP_HD std::int64_t output_rows() const { return axes[0].out * axes[1].out * axes[2].out; }

  /// The indices along each axis of the element at offset `i` of its plane.
  LOCKSTEP_HD std::array<std::int64_t, 4> output_place(std::int64_t i) const {
    const std::int64_t row = i / axes[3].out, line = row / axes[2].out;
    return {line / axes[1].out, line % axes[1].out, row % axes[2].out, i % axes[3].out};
  }
  LOCKSTEP_HD std::array<std::int64_t, 4> input_place(std::int64_t i) const {
    const std::int64_t row = i / axes[3].in, line = row / axes[2].in;
    return {line / axes[1].in, line % axes[1].in, row % axes[2].in, i % axes[3].in};
  }
};

/// Calls visit(a, b, c, d) for all combinations of positions in four spans; d varies fastest.
template <class Visit>
LOCKSTEP_HD void for_each_place(const Span (&spans)[4], const Visit& visit) {
  for (std::int64_t a = 0; a < spans[0].count; ++a)
    for (std::int64_t b = 0; b < spans[1].count; ++b)
      for (std::int64_t c = 0; c < spans[2].count; ++c)
        for (std::int64_t d = 0; d < spans[3].count; ++d)
          visit(spans[0].first + a * spans[0].step, spans[1].first + b * spans[1].step,
                spans[2].first + c * spans[2].step, spans[3].first + d * spans[3].step);
}

}  // namespace lockstep
