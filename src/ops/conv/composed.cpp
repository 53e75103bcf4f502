#include "ops/conv/composed.h"

#include <algorithm>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/layout.h>

#include "ops/images.h"
#include "ops/product.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep::composed {
namespace {

// Sizes of the matrix products.
struct Extents {
  std::int64_t groups, in, out;  // channels of a group
  std::int64_t window, pixels;   // elements of a window; of an image of y
};

Extents extents_of(const Shape& weight, const Shape& y, std::int64_t groups) {
  std::int64_t window = 1, pixels = 1;
  for (int d = 2; d < weight.rank(); ++d) {
    window *= weight[d];
    pixels *= y[d];
  }
  return {groups, weight[1], weight[0] / groups, window, pixels};
}

// Calls body for groups of images: as many at a time as kMostColumnBytes allows for copies of their windows.
template <class Body>
void for_images(const Extents& e, const Tensor& like, std::int64_t images, const Body& body) {
  const std::int64_t bytes = e.groups * e.in * e.window * e.pixels * std::int64_t(size_of(like.dtype()));
  const std::int64_t most = std::max<std::int64_t>(1, kMostColumnBytes / std::max<std::int64_t>(bytes, 1));
  for (std::int64_t first = 0; first < images; first += most) body(first, std::min(most, images - first));
}

Shape padded_sizes(const Shape& sizes, const Shape& padding) {
  Shape padded = sizes;
  for (int d = 2; d < sizes.rank(); ++d) padded[d] += 2 * padding[d - 2];
  return padded;
}

// The view of a padded image without its padding.
Tensor inside(Tensor padded, const Shape& sizes, const Shape& padding) {
  for (int d = 2; d < sizes.rank(); ++d)
    if (padding[d - 2] > 0) padded = padded.narrow(d, padding[d - 2], sizes[d]);
  return padded;
}

Tensor padded_image(const Tensor& x, const Shape& padding) {
  const Shape sizes = padded_sizes(x.sizes(), padding);
  if (sizes == x.sizes()) return x;
  Tensor padded = make_tensor(*x.impl()->storage->device, sizes, x.dtype());
  fill_values(padded, 0);
  copy_values(inside(padded, x.sizes(), padding), x);
  return padded;
}

// The windows of a padded image, as a view: [N, C, window..., spatial of y...].
Tensor windows_of(const Tensor& padded, const Shape& weight, const Shape& y, const ConvGeometry& geometry) {
  const Shape& steps = padded.strides();
  Shape sizes = {padded.sizes()[0], padded.sizes()[1]}, strides = {steps[0], steps[1]};
  for (int d = 2; d < weight.rank(); ++d) {
    sizes.push_back(weight[d]);
    strides.push_back(steps[d] * geometry.dilation[d - 2]);
  }
  for (int d = 2; d < weight.rank(); ++d) {
    sizes.push_back(y[d]);
    strides.push_back(steps[d] * geometry.stride[d - 2]);
  }
  return make_view(padded, sizes, strides, padded.impl()->offset);
}

// A dense copy of the windows.
Tensor columns_of(const Tensor& x, const Shape& weight, const Shape& y, const ConvGeometry& geometry) {
  return windows_of(padded_image(x, geometry.padding), weight, y, geometry).contiguous();
}

// y = a b for each group (and image, over which a broadcasts), in as few products as the strides allow. y: [N, groups,
// m, n], a: [groups, m, k], b: [N, groups, k, n].
void multiply_groups(const Tensor& y, const Tensor& a, const Tensor& b, const ProductOptions& options = {}) {
  const std::int64_t images = y.sizes()[0], groups = y.sizes()[1];
  if (groups <= images)
    for (std::int64_t i = 0; i < groups; ++i) multiply(y.select(1, i), a.select(0, i), b.select(1, i), options);
  else
    for (std::int64_t i = 0; i < images; ++i) multiply(y.select(0, i), a, b.select(0, i), options);
}

Tensor grouped_weight(const Tensor& weight, const Extents& e) {
  return weight.contiguous().view({e.groups, e.out, e.in * e.window});
}

// Sums, for each element of x, the columns of the windows that cover it, in the order of the window's elements.
void fold(const Tensor& columns, const Shape& weight, const Shape& y, const ConvGeometry& geometry, const Tensor& x) {
  const Shape padded = padded_sizes(x.sizes(), geometry.padding);
  Tensor sum = padded == x.sizes() ? x : make_tensor(*x.impl()->storage->device, padded, x.dtype());
  fill_values(sum, 0);
  Tensor from = windows_of(sum, weight, y, geometry), values = columns;
  const int spatial = weight.rank() - 2;
  std::int64_t positions = 1;
  for (int d = 0; d < spatial; ++d) positions *= weight[d + 2];
  for (std::int64_t position = 0; position < positions; ++position) {
    Tensor to = from, part = values;
    std::int64_t rest = position;
    for (int d = spatial - 1; d >= 0; --d) {
      to = to.select(d + 2, rest % weight[d + 2]);
      part = part.select(d + 2, rest % weight[d + 2]);
      rest /= weight[d + 2];
    }
    to.add_(part);
  }
  if (!sum.is_same(x)) copy_values(x, inside(sum, x.sizes(), geometry.padding));
}

}  // namespace

void convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& geometry,
                 const Tensor& y) {
  const NoGrad guard;
  const Extents e = extents_of(weight.sizes(), y.sizes(), geometry.groups);
  const Tensor factor = grouped_weight(weight, e);
  if (bias.defined()) copy_values(y, channels_of(bias, y.dim()));
  for_images(e, x, x.sizes()[0], [&](std::int64_t first, std::int64_t count) {
    const Tensor some = y.narrow(0, first, count);
    const Tensor columns = columns_of(x.narrow(0, first, count), weight.sizes(), some.sizes(), geometry);
    multiply_groups(some.view({count, e.groups, e.out, e.pixels}), factor,
                    columns.view({count, e.groups, e.in * e.window, e.pixels}), {.beta = bias.defined() ? 1. : 0.});
  });
}

void convolution_input_gradient(const Tensor& g, const Tensor& weight, const ConvGeometry& geometry, const Tensor& x) {
  const NoGrad guard;
  const Extents e = extents_of(weight.sizes(), g.sizes(), geometry.groups);
  const Tensor factor = grouped_weight(weight, e).transpose(1, 2);
  const Tensor dense = g.contiguous();
  for_images(e, x, x.sizes()[0], [&](std::int64_t first, std::int64_t count) {
    Shape sizes = {count, x.sizes()[1]};
    for (int d = 2; d < weight.dim(); ++d) sizes.push_back(weight.sizes()[d]);
    for (int d = 2; d < weight.dim(); ++d) sizes.push_back(g.sizes()[d]);
    const Tensor columns = make_tensor(*x.impl()->storage->device, sizes, x.dtype());
    multiply_groups(columns.view({count, e.groups, e.in * e.window, e.pixels}), factor,
                    dense.narrow(0, first, count).view({count, e.groups, e.out, e.pixels}));
    fold(columns, weight.sizes(), g.sizes(), geometry, x.narrow(0, first, count));
  });
}

void convolution_weight_gradient(const Tensor& x, const Tensor& g, const ConvGeometry& geometry, const Tensor& weight) {
  const NoGrad guard;
  const Extents e = extents_of(weight.sizes(), g.sizes(), geometry.groups);
  for_images(e, x, x.sizes()[0], [&](std::int64_t first, std::int64_t count) {
    const Tensor some = g.narrow(0, first, count);
    const Tensor padded = padded_image(x.narrow(0, first, count), geometry.padding);
    const Tensor windows = windows_of(padded, weight.sizes(), some.sizes(), geometry);
    // Moves the dimensions of images and pixels to the end: the product sums over them.
    const Tensor columns = movedim(windows, 0, weight.dim() - 1).contiguous();
    const Tensor rows = some.transpose(0, 1).contiguous().view({e.groups, e.out, count * e.pixels});
    multiply(weight.view({e.groups, e.out, e.in * e.window}), rows,
             columns.view({e.groups, e.in * e.window, count * e.pixels}).transpose(1, 2),
             {.beta = first == 0 ? 0. : 1.});
  });
}

}  // namespace lockstep::composed
