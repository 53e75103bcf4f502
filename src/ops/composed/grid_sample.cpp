// grid_sample, made of ops: gathers the neighbours of each position and weights them. Autograd differentiates these
// ops, so gradients of any order exist.
#include <lockstep/ops/grid_sample.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "ops/autocast.h"
#include "ops/dtypes.h"

namespace lockstep {
namespace {

enum class Mode { linear, nearest, cubic };
enum class Outside { zeros, border, reflection };

template <class T, std::size_t kCount>
T named(const char* what, std::string_view name, const std::array<std::pair<std::string_view, T>, kCount>& names) {
  std::string known;
  for (const auto& [text_of, value] : names) {
    if (text_of == name) return value;
    known += text(known.empty() ? "" : ", ", text_of);
  }
  throw InvalidArgument(text("[grid_sample] expected a ", what, " of ", known, ", got \"", name, "\""));
}

Mode mode_of(std::string_view name) {
  return named<Mode, 3>("mode", name,
                        {{{"bilinear", Mode::linear}, {"nearest", Mode::nearest}, {"bicubic", Mode::cubic}}});
}
Outside outside_of(std::string_view name) {
  return named<Outside, 3>(
      "padding_mode", name,
      {{{"zeros", Outside::zeros}, {"border", Outside::border}, {"reflection", Outside::reflection}}});
}

// Positions along one axis of the image.
class Axis {
 public:
  Axis(std::int64_t size, Outside outside, bool align_corners)
      : size_(size), outside_(outside), align_corners_(align_corners) {}

  /// Maps [-1, 1] to element coordinates.
  Tensor unnormalized(const Tensor& at) const {
    return align_corners_ ? (at + 1) * (double(size_ - 1) / 2) : ((at + 1) * double(size_) - 1) / 2;
  }
  /// Moves a position into the image if the padding mode asks for it. No gradient flows to clipped positions.
  Tensor apply_padding_mode(const Tensor& at) const {
    if (outside_ == Outside::zeros) return at;
    return clipped(outside_ == Outside::reflection ? reflected(at) : at);
  }
  /// True for elements inside of the image.
  Tensor is_inside(const Tensor& element) const { return logical_and(ge(element, 0), le(element, double(size_ - 1))); }
  /// int64: the element's index, or 0 outside of the image.
  Tensor index(const Tensor& element) const { return where(is_inside(element), element, 0).to(kInt64); }
  double size() const { return double(size_); }

 private:
  Tensor clipped(const Tensor& at) const {
    const double last = double(size_ - 1);
    const Tensor inside = logical_and(gt(at, 0), lt(at, last));
    return where(inside, at, clamp(nan_to_num(at.detach(), 0, last, 0), 0, last));
  }
  // Reflects at the centers of the corner elements, or at the edges.
  Tensor reflected(const Tensor& at) const {
    const double low = align_corners_ ? 0 : -0.5, span = align_corners_ ? double(size_ - 1) : double(size_);
    if (span == 0) return at * 0;
    const Tensor from = at - low, distance = abs(from), turns = floor(distance.detach() / span);
    const Tensor left = distance - turns * span;
    return where(eq(remainder(turns, 2), 0), left + low, span + low - left);
  }

  std::int64_t size_;
  Outside outside_;
  bool align_corners_;
};

/// An element along one axis that a position reads, and the element's weight. An undefined weight means 1.
struct Neighbor {
  Tensor element;  // a whole number in a floating dtype; without a gradient
  Tensor weight;
};
using Neighbors = std::vector<Neighbor>;

// Keys' convolution with a = -0.75, for distances up to 1 and up to 2.
Tensor cubic_near(const Tensor& t) { return ((t * 1.25 - 2.25) * t) * t + 1; }
Tensor cubic_far(const Tensor& t) { return ((t * -0.75 + 3.75) * t - 6) * t + 3; }

// The weight of the nearest element: constant, so that the grid gets the gradient 0 instead of none.
Tensor constant_weight(const Tensor& at) {
  if (!at.requires_grad()) return {};
  return custom_gradient("NearestElement", ones_like(at), {at},
                         [](const Tensor& g) { return std::vector{zeros_like(g)}; });
}

Neighbors neighbors_along(const Axis& axis, Mode mode, const Tensor& grid) {
  const Tensor given = axis.unnormalized(grid);
  if (mode == Mode::nearest) return {{round(axis.apply_padding_mode(given.detach())), constant_weight(given)}};
  if (mode == Mode::linear) {
    const Tensor at = axis.apply_padding_mode(given), low = floor(at.detach()), part = at - low;
    return {{low, 1 - part}, {low + 1, part}};
  }
  const Tensor low = floor(given.detach()), part = given - low, rest = 1 - part;
  Neighbors all = {{low - 1, cubic_far(part + 1)},
                   {low, cubic_near(part)},
                   {low + 1, cubic_near(rest)},
                   {low + 2, cubic_far(rest + 1)}};
  for (Neighbor& neighbor : all) neighbor.element = axis.apply_padding_mode(neighbor.element);
  return all;
}

/// One element of the image for each position that is sampled. Each tensor: [N, positions].
struct Read {
  Tensor index, counts, weight;
};

// Returns a Read for each pair of a given read and a neighbour along one more axis. The given reads vary fastest.
std::vector<Read> cross_with(const std::vector<Read>& reads, const Axis& axis, const Neighbors& along, double stride) {
  std::vector<Read> all;
  for (const Neighbor& neighbor : along) {
    const Tensor index = axis.index(neighbor.element) * stride, counts = axis.is_inside(neighbor.element);
    if (reads.empty()) all.push_back({index, counts, neighbor.weight});
    for (const Read& read : reads)
      all.push_back({read.index + index, logical_and(read.counts, counts),
                     neighbor.weight.defined() ? read.weight * neighbor.weight : Tensor()});
  }
  return all;
}

void check_sampled(const Tensor& x, const Tensor& grid) {
  check_same_device("grid_sample", x, grid);
  check_floating("grid_sample", x);
  if (grid.dtype() != x.dtype())
    throw DTypeError(text("[grid_sample] expected a grid of ", x.dtype(), ", got ", grid.dtype()));
  const int dims = x.dim() - 2;
  if ((dims != 2 && dims != 3) || grid.dim() != x.dim() || grid.size(0) != x.size(0) || grid.size(-1) != dims)
    throw ShapeError(
        text("[grid_sample] expected x [N, C, H, W] and a grid [N, H', W', 2], or x [N, C, D, H, W] and a "
             "grid [N, D', H', W', 3], got ",
             x.sizes(), " and ", grid.sizes()));
  for (int i = 2; i < x.dim(); ++i)
    if (x.size(i) == 0) throw ShapeError(text("[grid_sample] expected an image with elements, got ", x.sizes()));
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  const Mode mode = mode_of(options.mode);
  const Outside outside = outside_of(options.padding_mode);
  if (const auto cast = autocast::wide()) return grid_sample(cast(x), cast(grid), options);
  check_sampled(x, grid);
  const std::int64_t batch = x.size(0), channels = x.size(1);
  Shape sizes = grid.sizes();
  sizes.erase(sizes.rank() - 1);
  sizes.insert(1, channels);
  const std::int64_t places = grid.numel() / std::max<std::int64_t>(1, batch * grid.size(-1));

  const Tensor image =
      widened(x).reshape({batch, channels, x.sizes().elements() / std::max<std::int64_t>(1, batch * channels)});
  const Tensor at = widened(grid).reshape({batch, places, grid.size(-1)});
  std::vector<Read> reads;
  double stride = 1;
  for (int i = 0; i < int(grid.size(-1)); ++i) {  // W, H, D
    const Axis axis(x.size(-1 - i), outside, options.align_corners);
    reads = cross_with(reads, axis, neighbors_along(axis, mode, at.select(-1, i)), stride);
    stride *= axis.size();
  }
  Tensor sum;
  for (const Read& read : reads) {
    const Tensor found = gather_elements(image, 2, read.index.unsqueeze(1).expand({batch, channels, places}));
    const Tensor counted = where(read.counts.unsqueeze(1), found, 0);
    const Tensor part = read.weight.defined() ? counted * read.weight.unsqueeze(1) : counted;
    sum = sum.defined() ? sum + part : part;
  }
  return sum.reshape(sizes).to(x.dtype());
}

}  // namespace lockstep
