#include <lockstep/ops/layout.h>

#include <algorithm>

#include "core/text.h"
#include "ops/pad_border.h"
#include "ops/record.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

// The padding of each dimension: elements added (positive) or cut (negative) before and behind.
struct Padded {
  Shape before, behind, sizes;
};

Padded padded_sizes(const Tensor& x, const std::vector<std::int64_t>& padding) {
  const int rank = impl_of("pad", x).sizes.rank();
  const int count = int(padding.size() / 2);
  if (padding.size() % 2 != 0 || count > rank)
    throw ShapeError(
        text("[pad] expected two numbers for each of at most ", rank, " dimensions, got ", padding.size()));
  Padded result = {Shape::filled(rank, 0), Shape::filled(rank, 0), x.sizes()};
  for (int i = 0; i < count; ++i) {
    const int d = rank - 1 - i;
    const std::int64_t before = padding[std::size_t(2 * i)], behind = padding[std::size_t(2 * i) + 1];
    const std::int64_t own = x.sizes()[d], cut = std::min<std::int64_t>(before, 0);
    if (before < -own || behind < -(own + cut))
      throw ShapeError(text("[pad] expected to cut at most ", own, " elements, got ", before, " and ", behind));
    std::int64_t& size = result.sizes[d];
    if (__builtin_add_overflow(own, before, &size) || __builtin_add_overflow(size, behind, &size))
      throw ShapeError(text("[pad] expected a size that fits 64 bits, got ", own, " with ", before, " and ", behind));
    result.before[d] = before;
    result.behind[d] = behind;
  }
  return result;
}

// Cuts elements off x where the padding is negative.
Tensor cut(Tensor x, const Padded& padded) {
  for (int d = 0; d < x.dim(); ++d) {
    const std::int64_t before = std::max<std::int64_t>(-padded.before[d], 0),
                       behind = std::max<std::int64_t>(-padded.behind[d], 0);
    if (before + behind > 0) x = x.narrow(d, before, x.sizes()[d] - before - behind);
  }
  return x;
}

Tensor with_constant(const Tensor& kept, const Padded& padded, double value) {
  const auto inside = [before = padded.before, lengths = kept.sizes()](Tensor whole) {
    for (int d = 0; d < lengths.rank(); ++d)
      if (whole.sizes()[d] != lengths[d]) whole = whole.narrow(d, std::max<std::int64_t>(before[d], 0), lengths[d]);
    return whole;
  };
  Tensor out = make_tensor(*kept.impl()->storage->device, padded.sizes, kept.dtype());
  check_fits("pad", value, out.dtype());
  fill_values(out, value);
  copy_values(inside(out), kept);
  if (records(kept)) record("Pad", out, {&kept}, [inside](const Tensor& g) { return Gradients{inside(g)}; });
  return out;
}

Shape without_cuts(Shape numbers) {
  for (int d = 0; d < numbers.rank(); ++d) numbers[d] = std::max<std::int64_t>(numbers[d], 0);
  return numbers;
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, const PaddingOptions& options) {
  const Padded padded = padded_sizes(x, padding);
  if (options.mode == PadMode::constant) return with_constant(cut(x, padded), padded, options.value);
  if (options.value != 0)
    throw InvalidArgument(text("[pad] a value needs PadMode::constant, got another mode with value ", options.value));
  const Shape before = without_cuts(padded.before), behind = without_cuts(padded.behind);
  // As in PyTorch, circular mode first cuts x, then repeats the rest; the other modes first repeat elements, then cut.
  if (options.mode == PadMode::circular) return pad_border(cut(x, padded), options.mode, before, behind);
  return cut(pad_border(x, options.mode, before, behind), padded);
}

}  // namespace lockstep
