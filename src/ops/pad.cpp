#include <lockstep/ops/layout.h>

#include <algorithm>

#include "autograd/record.h"
#include "core/text.h"
#include "tensor/copy.h"

namespace lockstep {

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, double value) {
  const int rank = impl_of("pad", x).sizes.rank();
  const int padded = int(padding.size() / 2);
  if (padding.size() % 2 != 0 || padded > rank)
    throw ShapeError(
        text("[pad] expected two numbers for each of at most ", rank, " dimensions, got ", padding.size()));
  Tensor kept = x;  // without what negative numbers cut
  Shape sizes = x.sizes(), starts = Shape::filled(rank, 0), lengths = x.sizes();
  for (int i = 0; i < padded; ++i) {
    const int d = rank - 1 - i;
    const std::int64_t before = padding[std::size_t(2 * i)], after = padding[std::size_t(2 * i) + 1];
    const std::int64_t own = x.sizes()[d], cut = std::min<std::int64_t>(before, 0);
    if (before < -own || after < -(own + cut))
      throw ShapeError(text("[pad] expected to cut at most ", own, " elements, got ", before, " and ", after));
    if (__builtin_add_overflow(own, before, &sizes[d]) || __builtin_add_overflow(sizes[d], after, &sizes[d]))
      throw ShapeError(text("[pad] expected a size that fits 64 bits, got ", own, " with ", before, " and ", after));
    starts[d] = std::max<std::int64_t>(before, 0);
    lengths[d] = own + cut + std::min<std::int64_t>(after, 0);
    if (lengths[d] != x.sizes()[d]) kept = kept.narrow(d, std::max<std::int64_t>(-before, 0), lengths[d]);
  }
  const auto inside = [starts, lengths](Tensor whole) {
    for (int d = 0; d < lengths.rank(); ++d)
      if (whole.sizes()[d] != lengths[d]) whole = whole.narrow(d, starts[d], lengths[d]);
    return whole;
  };
  Tensor out = make_tensor(*x.impl()->storage->device, sizes, x.dtype());
  fill_values(out, value);
  copy_values(inside(out), kept);
  if (autograd::records(kept))
    autograd::record("Pad", out, {&kept}, [inside](const Tensor& g) { return autograd::Gradients{inside(g)}; });
  return out;
}

}  // namespace lockstep
