#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>

#include "core/integers.h"
#include "kernels/rows/rows.h"
#include "ops/autocast.h"
#include "ops/dtypes.h"
#include "ops/record.h"
#include "ops/reduced_dims.h"

namespace lockstep {
namespace {

template <class C>
struct Product {
  using Accumulator = Wrapping<std::conditional_t<std::is_integral_v<C>, std::int64_t, C>>;
  LOCKSTEP_HD Accumulator identity() const { return 1; }
  LOCKSTEP_HD Accumulator load(C x) const { return Accumulator(x); }
  LOCKSTEP_HD Accumulator combine(Accumulator a, Accumulator b) const { return a * b; }
  LOCKSTEP_HD Accumulator finish(Accumulator a, std::int64_t) const { return a; }
};

// The gradient of x[i] is g times the product of all other elements: the product of the elements before i times the
// product of those after i, without a division.
template <class T>
struct ProductGradient {
  using C = ComputeType<T>;
  LOCKSTEP_HD void operator()(RowOf<T> out, RowOf<const T> g, RowOf<const T> x) const {
    C before = 1;
    for (std::int64_t i = 0; i < x.length; ++i) {
      out[i] = T(before);
      before *= C(x[i]);
    }
    C after = C(g[0]);
    for (std::int64_t i = x.length - 1; i >= 0; --i) {
      out[i] = T(C(out[i]) * after);
      after *= C(x[i]);
    }
  }
};

// For each element, the product of the others, by differentiable operations: makes n copies of the row, sets element i
// of copy i to 1, and takes the product of each copy.
Tensor others(const Tensor& x, int dim) {
  const std::int64_t n = x.sizes()[dim];
  const Tensor places = arange(0, double(n), 1, {.dtype = kInt64, .device = x.device()});
  const Tensor diagonal = eq(places.unsqueeze(0), places.unsqueeze(1));
  Shape spread = Shape::filled(x.dim() + 1, 1);
  spread[dim] = spread[dim + 1] = n;
  return prod(where(diagonal.view(spread), 1, x.unsqueeze(dim)), {dim + 1});
}

Tensor along(const Tensor& x, int dim) {  // keeps the dimension
  const TensorImpl& from = *x.impl();
  DimMask mask = {};
  mask[std::size_t(dim)] = true;
  Tensor out = make_tensor(*from.storage->device, reduced_sizes(from.sizes, mask, true),
                           is_floating(from.dtype) ? from.dtype : kInt64);
  visit_all(from.dtype, [&]<class T>() {
    using Result = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    reduce<Result, T>("prod", Product<ComputeType<T>>(), out, x, mask);
  });
  if (records(x))
    record("Prod", out, {&x}, [saved = Saved(x), dim](const Tensor& g) {
      const Tensor v = widened(saved.get()), wide_g = widened(g);
      if (grad_enabled()) return Gradients{(wide_g * others(v, dim)).to(g.dtype())};
      Tensor gradient = make_tensor(*v.impl()->storage->device, v.sizes(), v.dtype());
      visit_floating("prod", v.dtype(), [&]<class T>() {
        if constexpr (!kNarrow<T>)
          map_rows<T, T, T>("prod_gradient", 4, ProductGradient<T>(), dim, gradient, wide_g, v);
      });
      return Gradients{gradient.to(g.dtype())};
    });
  return out;
}

}  // namespace

Tensor prod(const Tensor& x) { return prod(x, Shape()); }

Tensor prod(const Tensor& x, const Shape& dims, bool keep_dims) {
  if (const auto cast = autocast::wide()) return prod(cast(x), dims, keep_dims);
  const DimMask mask = mask_or_all("prod", dims, impl_of("prod", x).sizes.rank());
  const MergedDims merged = merge_dims(x, mask);
  return along(merged.x, merged.dim).reshape(reduced_sizes(x.sizes(), mask, keep_dims));
}

}  // namespace lockstep
