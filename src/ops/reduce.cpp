#include <lockstep/ops/reduce.h>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>

#include "core/integers.h"
#include "ops/autocast.h"
#include "ops/float32_results.h"
#include "ops/record.h"
#include "ops/reduced_dims.h"

namespace lockstep {
namespace {

// Floats are summed in float, in short chains that are added in a tree: the error grows with the logarithm of the
// count.
template <class C>
struct Sum {
  using Accumulator = Wrapping<std::conditional_t<std::is_integral_v<C>, std::int64_t, C>>;
  Accumulator divisor = 1;  // divides the complete sum
  LOCKSTEP_HD Accumulator identity() const { return 0; }
  LOCKSTEP_HD Accumulator load(C x) const { return Accumulator(x); }
  LOCKSTEP_HD Accumulator combine(Accumulator a, Accumulator b) const { return a + b; }
  LOCKSTEP_HD Accumulator finish(Accumulator a, std::int64_t) const { return a / divisor; }
};

Tensor divided_sum(const char* op, const char* node, const Tensor& x, const DimMask& mask, bool keep_dims,
                   double divisor) {
  const TensorImpl& from = *x.impl();
  const DType dtype = is_floating(from.dtype) ? from.dtype : kInt64;
  Tensor out = make_tensor(*from.storage->device, reduced_sizes(from.sizes, mask, keep_dims), dtype);
  visit_all(from.dtype, [&]<class T>() {
    using Result = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    using Reducer = Sum<ComputeType<T>>;
    reduce<Result, T>(op, Reducer{typename Reducer::Accumulator(divisor)}, out, x, mask);
  });
  if (records(x))
    record(node, out, {&x},
           [sizes = from.sizes, kept = reduced_sizes(from.sizes, mask, true), divisor](const Tensor& g) {
             return Gradients{(divisor == 1 ? g : div(g, divisor)).reshape(kept).expand(sizes)};
           });
  return out;
}

Tensor any_over(const char* op, const Tensor& x, const DimMask& mask, bool keep_dims) {
  return ne(divided_sum(op, op, x.to(kBool), mask, keep_dims, 1), 0);
}

}  // namespace

Tensor sum(const Tensor& x) { return sum(x, Shape()); }

Tensor sum(const Tensor& x, const Shape& dims, bool keep_dims) {
  if (const auto cast = autocast::wide()) return sum(cast(x), dims, keep_dims);
  return divided_sum("sum", "Sum", x, mask_or_all("sum", dims, impl_of("sum", x).sizes.rank()), keep_dims, 1);
}

Tensor any(const Tensor& x) { return any_over("any", x, all_of(impl_of("any", x).sizes.rank()), false); }

Tensor any(const Tensor& x, const Shape& dims, bool keep_dims) {
  return any_over("any", x, mask_of("any", dims, impl_of("any", x).sizes.rank()), keep_dims);
}

Tensor all(const Tensor& x) {
  const DimMask mask = all_of(impl_of("all", x).sizes.rank());
  return logical_not(any_over("all", logical_not(x), mask, false));
}

Tensor all(const Tensor& x, const Shape& dims, bool keep_dims) {
  const DimMask mask = mask_of("all", dims, impl_of("all", x).sizes.rank());
  return logical_not(any_over("all", logical_not(x), mask, keep_dims));
}

Tensor sum_rows_as(DType dtype, const Tensor& x) {
  const TensorImpl& from = impl_of("sum", x);
  const DimMask mask = mask_of("sum", {0}, from.sizes.rank());
  if (dtype != kFloat32 || !is_floating(from.dtype) || size_of(from.dtype) != 2 || records(x))
    return divided_sum("sum", "Sum", x, mask, false, 1).to(dtype);
  Tensor out = make_tensor(*from.storage->device, reduced_sizes(from.sizes, mask, false), dtype);
  if (from.dtype == kBFloat16)
    reduce<float, BFloat16>("sum", Sum<float>(), out, x, mask);
  else
    reduce<float, Half>("sum", Sum<float>(), out, x, mask);
  return out;
}

Tensor mean(const Tensor& x) { return mean(x, Shape()); }

Tensor mean(const Tensor& x, const Shape& dims, bool keep_dims) {
  const DimMask mask = mask_or_all("mean", dims, impl_of("mean", x).sizes.rank());
  check_floating("mean", x);
  return divided_sum("mean", "Mean", x, mask, keep_dims, double(reduced_count(x.sizes(), mask)));
}

Tensor sum_to(const Tensor& x, const Shape& sizes) {
  const Shape& from = impl_of("sum_to", x).sizes;
  if (from == sizes) return x;
  if (broadcast("sum_to", from, sizes) != from)
    throw ShapeError(text("[sum_to] expected a shape that broadcasts to ", from, ", got ", sizes));
  DimMask mask = {};
  const int extra = from.rank() - sizes.rank();
  for (int i = 0; i < from.rank(); ++i) mask[std::size_t(i)] = i < extra || (sizes[i - extra] == 1 && from[i] != 1);
  return divided_sum("sum", "Sum", x, mask, false, 1).reshape(sizes);
}

}  // namespace lockstep
