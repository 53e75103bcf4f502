// Fills the border one dimension after the other. The strips along a dimension include the borders of the dimensions
// before it. The gradient goes the other way: it adds each border to its source, dimension by dimension, so the order
// of summation is fixed.
#include "ops/pad_border.h"

#include <algorithm>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/reduce.h>

#include "core/text.h"
#include "ops/images.h"
#include "ops/record.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

struct Border {
  PadMode mode;
  Shape before, behind;  // elements to add
  Shape sizes;           // the sizes of the tensor inside of the border
};

// A part of the border: `count` positions of `whole` along d, from `to` on. They are copies of the `count` positions
// (in replicate mode, of the one position) from `from` on.
struct Strip {
  int d;
  std::int64_t to, from, count;
};

// The part of the whole that has a border only along the dimensions before `d`.
Tensor within(Tensor whole, const Border& border, int d) {
  for (; d < border.sizes.rank(); ++d)
    if (whole.sizes()[d] != border.sizes[d]) whole = whole.narrow(d, border.before[d], border.sizes[d]);
  return whole;
}

// Calls visit for the border strips along d.
template <class Visit>
void for_strips(const Border& border, int d, const Visit& visit) {
  const std::int64_t before = border.before[d], behind = border.behind[d], size = border.sizes[d];
  const std::int64_t end = before + size;
  if (border.mode == PadMode::circular) {
    if (before > 0) visit(Strip{d, 0, size, before});
    if (behind > 0) visit(Strip{d, end, before, behind});
  } else if (border.mode == PadMode::replicate) {
    if (before > 0) visit(Strip{d, 0, before, before});
    if (behind > 0) visit(Strip{d, end, end - 1, behind});
  } else {
    if (before > 0) visit(Strip{d, 0, before + 1, before});
    if (behind > 0) visit(Strip{d, end, end - 1 - behind, behind});
  }
}

Tensor source_of(const Tensor& whole, const Border& border, const Strip& strip) {
  return whole.narrow(strip.d, strip.from, border.mode == PadMode::replicate ? 1 : strip.count);
}

Tensor without_border(const Tensor& g, const Border& border);

Tensor with_border(const Tensor& x, const Border& border) {
  Shape sizes = border.sizes;
  for (int d = 0; d < sizes.rank(); ++d) sizes[d] += border.before[d] + border.behind[d];
  const bool is_last = !x.is_contiguous() && is_channels_last(x.sizes(), x.strides());
  DeviceState& device = *x.impl()->storage->device;
  Tensor out = is_last ? make_images(device, sizes, x.dtype()) : make_tensor(device, sizes, x.dtype());
  {
    const NoGrad guard;
    copy_values(within(out, border, 0), x);
    for (int d = 0; d < sizes.rank(); ++d)
      for_strips(border, d, [&](const Strip& strip) {
        const Tensor whole = within(out, border, d + 1), from = source_of(whole, border, strip);
        copy_values(whole.narrow(d, strip.to, strip.count), border.mode == PadMode::reflect ? flip(from, {d}) : from);
      });
  }
  if (records(x))
    record("PadBorder", out, {&x}, [border](const Tensor& g) { return Gradients{without_border(g, border)}; });
  return out;
}

// The transpose of with_border, for its gradient.
Tensor without_border(const Tensor& g, const Border& border) {
  Tensor out;
  {
    const NoGrad guard;
    const DType dtype = g.dtype() == kFloat64 ? kFloat64 : kFloat32;
    const Tensor sums = copied(g.detach(), *g.impl()->storage->device, dtype);
    for (int d = border.sizes.rank(); d-- > 0;)
      for_strips(border, d, [&](const Strip& strip) {
        const Tensor whole = within(sums, border, d + 1);
        Tensor to = source_of(whole, border, strip), from = whole.narrow(d, strip.to, strip.count);
        if (border.mode == PadMode::replicate)
          from = sum(from, {d}, true);
        else if (border.mode == PadMode::reflect)
          from = flip(from, {d});
        to.add_(from);
      });
    out = copied(within(sums, border, 0), *g.impl()->storage->device, g.dtype());
  }
  if (records(g))
    record("PadBorderBackward", out, {&g},
           [border](const Tensor& twice) { return Gradients{with_border(twice, border)}; });
  return out;
}

}  // namespace

Tensor pad_border(const Tensor& x, PadMode mode, const Shape& before, const Shape& behind) {
  const Border border = {mode, before, behind, x.sizes()};
  bool is_any = false;
  for (int d = 0; d < x.dim(); ++d) {
    const std::int64_t most = std::max(before[d], behind[d]), size = x.sizes()[d];
    if (most == 0) continue;
    is_any = true;
    if (size < 1 || (mode == PadMode::circular && most > size) || (mode == PadMode::reflect && most >= size))
      throw ShapeError(text("[pad] ",
                            mode == PadMode::reflect    ? "reflect mode can add at most size - 1 elements per side"
                            : mode == PadMode::circular ? "circular mode can add at most size elements per side"
                                                        : "replicate mode needs at least one element to repeat",
                            ": dimension ", d, " of shape ", x.sizes(), " has size ", size, ", got ", most));
  }
  return is_any ? with_border(x, border) : x.clone();
}

}  // namespace lockstep
