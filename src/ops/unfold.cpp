// Windows along a dimension, as a view in which windows may overlap. The gradient sums over the windows.
#include <lockstep/tensor/tensor.h>

#include "autograd/views.h"
#include "core/text.h"
#include "ops/dtypes.h"
#include "ops/record.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

// The gradient of the base, from the windows' gradient [..., windows, ..., size].
Tensor gradient_of_base(const Tensor& gradient, const Shape& base, int dim, std::int64_t step) {
  const std::int64_t windows = gradient.sizes()[dim], size = gradient.sizes().back();
  Tensor whole = make_tensor(*gradient.impl()->storage->device, base, wide_dtype(gradient.dtype()));
  {
    const NoGrad guard;
    fill_values(whole, 0);
    for (std::int64_t i = 0; i < size; ++i)
      whole.slice(dim, i, i + (windows - 1) * step + 1, step).add_(gradient.select(-1, i).to(whole.dtype()));
    whole = whole.to(gradient.dtype());
  }
  if (records(gradient))
    record("UnfoldGradient", whole, {&gradient},
           [dim, size, step](const Tensor& g) { return Gradients{g.unfold(dim, size, step)}; });
  return whole;
}

}  // namespace

Tensor Tensor::unfold(std::int64_t dim, std::int64_t size, std::int64_t step) const {
  const TensorImpl& x = impl_of("unfold", *this);
  const int d = wrap_dim("unfold", dim, x.sizes.rank());
  const std::int64_t length = x.sizes.empty() ? 1 : x.sizes[d];
  if (size < 0 || size > length || step < 1)
    throw ShapeError(
        text("[unfold] expected a size from 0 to ", length, " and a step of at least 1, got ", size, " and ", step));
  if (x.sizes.empty()) return unsqueeze(0).narrow(0, 0, size);
  Shape sizes = x.sizes, strides = x.strides;
  sizes.push_back(size);
  strides.push_back(strides[d]);
  sizes[d] = (length - size) / step + 1;
  if (sizes[d] > 1) strides[d] *= step;
  Tensor out = autograd::view_of(*this, sizes, strides, x.offset);
  if (records(*this))
    record("Unfold", out, {this},
           [base = x.sizes, d, step](const Tensor& g) { return Gradients{gradient_of_base(g, base, d, step)}; });
  return out;
}

}  // namespace lockstep
