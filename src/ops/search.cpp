// Binary search: values are searched independently, in parallel.
#include <lockstep/ops/search.h>

#include <algorithm>
#include <cmath>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include "kernels/rows/rows.h"
#include "ops/dtypes.h"

namespace lockstep {
namespace {

// The number of elements before each value. As in PyTorch, NaN counts as greater than every number, so its position is
// the end.
template <class T>
struct CountBefore {
  bool right;
  LOCKSTEP_HD void operator()(RowOf<std::int64_t> out, RowOf<const T> sequence, RowOf<const T> values) const {
    using C = ComputeType<T>;
    const C value = C(values[0]);
    std::int64_t low = 0, high = sequence.length;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      const C there = C(sequence[middle]);
      if (right ? there > value : there >= value)
        high = middle;
      else
        low = middle + 1;
    }
    out[0] = low;
  }
};

bool goes_right(const SearchSortedOptions& options) {
  if (options.side.empty() || options.side == "right") return options.right || !options.side.empty();
  if (options.side != "left")
    throw InvalidArgument(text("[searchsorted] expected side \"left\" or \"right\", got \"", options.side, "\""));
  if (options.right) throw InvalidArgument("[searchsorted] expected one side, got right = true and side \"left\"");
  return false;
}

// sequence: [n] or [rows, n]; values: [count] or [rows, count].
Tensor found(const Tensor& sequence, const Tensor& values, bool right) {
  const Tensor out = make_tensor(*values.impl()->storage->device, values.sizes(), kInt64);
  if (values.numel() == 0) return out;
  if (sequence.size(-1) == 0) return out.clone().zero_();
  Shape sizes = values.sizes();
  sizes.push_back(sequence.size(-1));
  const Tensor rows = (sequence.dim() == 1 ? sequence : sequence.unsqueeze(1)).expand(sizes);
  visit_numeric("searchsorted", values.dtype(), [&]<class T>() {
    map_rows<std::int64_t, T, T>("searchsorted", 16, CountBefore<T>{right}, sizes.rank() - 1, out.unsqueeze(-1), rows,
                                 values.unsqueeze(-1));
  });
  return out;
}

Tensor searched(const char* op, const Tensor& given, const Tensor& wanted, bool right, const Tensor& sorter,
                bool out_int32) {
  const DType result = out_int32 ? kInt32 : kInt64, common = promote(given.dtype(), wanted.dtype());
  const Tensor values = wanted.detach().to(common);
  Tensor sequence = given.detach().to(common);
  if (sorter.defined()) {
    if (sorter.dtype() != kInt64 || sorter.sizes() != sequence.sizes())
      throw ShapeError(text("[", op, "] expected an int64 sorter of ", sequence.sizes(), ", got ", sorter.dtype(), ' ',
                            sorter.sizes()));
    sequence = gather_elements(sequence, -1, sorter);
  }
  Tensor counts;
  if (sequence.dim() == 1) {
    counts = found(sequence, values.reshape(-1), right);
  } else {
    Shape expected = values.sizes();
    if (!expected.empty()) expected[expected.rank() - 1] = sequence.size(-1);
    if (sequence.sizes() != expected)
      throw ShapeError(text("[", op,
                            "] expected a 1-dim sorted_sequence, or one with the sizes of the values except for the "
                            "last, got ",
                            sequence.sizes(), " and values ", values.sizes()));
    if (values.numel() == 0) return zeros(values.sizes(), {.dtype = result, .device = values.device()});
    const Shape rows = {values.numel() / values.size(-1), -1};
    counts = found(sequence.reshape({rows[0], sequence.size(-1)}), values.reshape(rows), right);
  }
  return counts.to(result).view(values.sizes());
}

void check_search(const char* op, const Tensor& sequence, const Tensor& values) {
  check_same_device(op, sequence, values);
  if (sequence.dim() == 0)
    throw ShapeError(text("[", op, "] expected a sorted_sequence with at least 1 dimension, got a 0-dim one"));
  if (sequence.dtype() == kBool || values.dtype() == kBool)
    throw DTypeError(text("[", op, "] expected numeric dtypes, got ", sequence.dtype(), " and ", values.dtype()));
}

// A sequence, and a number as a 0-dim tensor, in a dtype that holds both.
struct Pair {
  Tensor sequence, value;
};
Pair beside(const char* op, const Tensor& sequence, double value) {
  const DType dtype = impl_of(op, sequence).dtype;
  if (sequence.dim() != 1)
    throw ShapeError(text("[", op, "] a number needs a 1-dim sorted_sequence, got shape ", sequence.sizes()));
  const DType common = is_floating(dtype) || (dtype != kBool && holds(dtype, value)) ? dtype : kFloat64;
  return {sequence.to(common), full({}, value, {.dtype = common, .device = sequence.device()})};
}

void check_boundaries(const Tensor& boundaries) {
  if (impl_of("bucketize", boundaries).sizes.rank() != 1)
    throw ShapeError(text("[bucketize] expected boundaries [n], got ", boundaries.sizes()));
}

}  // namespace

Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values, const SearchSortedOptions& options) {
  const bool right = goes_right(options);
  check_search("searchsorted", sorted_sequence, values);
  return searched("searchsorted", sorted_sequence, values, right, options.sorter, options.out_int32);
}

Tensor searchsorted(const Tensor& sorted_sequence, double value, const SearchSortedOptions& options) {
  const Pair pair = beside("searchsorted", sorted_sequence, value);
  return searchsorted(pair.sequence, pair.value, options);
}

Tensor bucketize(const Tensor& x, const Tensor& boundaries, const BucketizeOptions& options) {
  check_boundaries(boundaries);
  check_search("bucketize", boundaries, x);
  return searched("bucketize", boundaries, x, options.right, {}, options.out_int32);
}

Tensor bucketize(double x, const Tensor& boundaries, const BucketizeOptions& options) {
  check_boundaries(boundaries);
  const Pair pair = beside("bucketize", boundaries, x);
  return bucketize(pair.value, pair.sequence, options);
}

Tensor histc(const Tensor& x, std::int64_t bins, double min, double max) {
  check_floating("histc", x);
  if (bins < 1) throw InvalidArgument(text("[histc] expected at least one bin, got ", bins));
  const Tensor all = widened(x.detach()).reshape(-1);
  if (min == max && all.numel() > 0) {
    min = lockstep::min(all).item<double>();
    max = lockstep::max(all).item<double>();
  }
  if (min == max) {
    min -= 1;
    max += 1;
  }
  if (!std::isfinite(min) || !std::isfinite(max))
    throw InvalidArgument(text("[histc] expected bounds that are finite, got ", min, " and ", max));
  if (min > max) throw InvalidArgument(text("[histc] expected min <= max, got ", min, " and ", max));

  const TensorOptions like = all.options();
  const Tensor low = full({}, min, like), high = full({}, max, like);
  const Tensor counts = logical_and(ge(all, low), le(all, high));
  const Tensor place = where(counts, (all - low) * double(bins) / (high - low), 0);
  const Tensor bin = minimum(place.to(kInt64), full({}, bins - 1, {.dtype = kInt64, .device = x.device()}));
  return scatter_add(zeros(bins, like), 0, bin, counts.to(all.dtype())).to(x.dtype());
}

}  // namespace lockstep
