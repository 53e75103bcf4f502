// The common geometry of a kernel's operands: sizes and strides with as few dimensions as possible.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include <lockstep/core/dtype.h>
#include <lockstep/core/shape.h>

namespace lockstep {

/// N operands over one shape. The last dimension is the inner loop. Strides in elements; 0 in dimensions that an
/// operand broadcasts.
template <int N>
struct Geometry {
  Shape sizes;
  std::array<Shape, std::size_t(N)> strides;
  std::int64_t numel = 0;
  bool dense = false;  ///< All operands are contiguous: one dimension of `numel` elements, strides 1.
};

/// The strides of an operand that is broadcast to `sizes`. An operand has sizes, strides, numel and contiguous.
template <class Operand>
Shape broadcast_strides(const Operand& tensor, const Shape& sizes) noexcept {
  Shape strides = sizes;
  const int offset = sizes.rank() - tensor.sizes.rank();
  for (int i = 0; i < sizes.rank(); ++i) {
    const bool inside = i >= offset && (tensor.sizes[i - offset] != 1 || sizes[i] == 1);
    strides[i] = inside ? tensor.strides[i - offset] : 0;
  }
  return strides;
}

/// Merges neighbouring dimensions that are evenly strided in all operands, and drops dimensions of size 1.
template <int N>
void collapse(Geometry<N>& g) noexcept {
  int last = -1;  // the dimension that was kept last; -1: none yet
  for (int i = 0; i < g.sizes.rank(); ++i) {
    if (g.sizes[i] == 1) continue;
    bool merges = last >= 0;
    for (const Shape& s : g.strides) merges = merges && s[last] == s[i] * g.sizes[i];
    if (merges) {
      g.sizes[last] *= g.sizes[i];
    } else {
      ++last;
      g.sizes[last] = g.sizes[i];
    }
    for (Shape& s : g.strides) s[last] = s[i];
  }
  while (g.sizes.rank() > last + 1) {
    g.sizes.erase(g.sizes.rank() - 1);
    for (Shape& s : g.strides) s.erase(s.rank() - 1);
  }
}

/// Sorts the dimensions by the first operand's strides, the greatest first. (This changes the order of the elements,
/// which elementwise kernels do not depend on.)
template <int N>
void follow_memory(Geometry<N>& g) noexcept {
  const Shape& steps = g.strides[0];
  for (int i = 1; i < g.sizes.rank(); ++i)
    for (int k = i; k > 0 && steps[k] > steps[k - 1]; --k) {
      std::swap(g.sizes[k], g.sizes[k - 1]);
      for (Shape& strides : g.strides) std::swap(strides[k], strides[k - 1]);
    }
}

/// Swaps the last two dimensions if the inner loop would be too short, as for a few channels of many pixels.
template <int N>
void lengthen_rows(Geometry<N>& g) noexcept {
  const int last = g.sizes.rank() - 1;
  if (last < 1 || g.sizes[last] >= 8 || g.sizes[last - 1] < 4 * g.sizes[last]) return;
  std::swap(g.sizes[last], g.sizes[last - 1]);
  for (Shape& strides : g.strides) std::swap(strides[last], strides[last - 1]);
}

/// The geometry of the operands broadcast to `sizes`.
template <class... Operands>
Geometry<sizeof...(Operands)> make_geometry(const Shape& sizes, const Operands&... operands) noexcept {
  Geometry<sizeof...(Operands)> g;
  g.numel = sizes.elements();
  g.dense = ((operands.contiguous && operands.numel == g.numel) && ...);
  if (g.dense) {
    g.sizes.push_back(g.numel);
    for (Shape& strides : g.strides) strides.push_back(1);
    return g;
  }
  g.sizes = sizes;
  g.strides = {broadcast_strides(operands, sizes)...};
  follow_memory(g);
  collapse(g);
  g.dense = g.sizes.rank() == 1;
  for (const Shape& strides : g.strides) g.dense = g.dense && strides[0] == 1;
  return g;
}

/// The operands' offsets, in elements, at an index into the first `dims` dimensions of their shape.
template <int N>
LOCKSTEP_HD std::array<std::int64_t, std::size_t(N)> offsets_at(const Geometry<N>& g, std::int64_t index, int dims) {
  std::array<std::int64_t, std::size_t(N)> at = {};
  for (int d = dims - 1; d >= 0; --d) {
    const std::int64_t place = index % g.sizes[d];
    index /= g.sizes[d];
    for (std::size_t n = 0; n < N; ++n) at[n] += place * g.strides[n][d];
  }
  return at;
}
template <int N>
LOCKSTEP_HD std::array<std::int64_t, std::size_t(N)> offsets_at(const Geometry<N>& g, std::int64_t index) {
  return offsets_at(g, index, g.sizes.rank());
}

}  // namespace lockstep
