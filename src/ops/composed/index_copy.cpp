// index_copy and index_fill: write slices of a tensor at indices along a dimension.
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "ops/dtypes.h"
#include "ops/index_check.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

Tensor as_places(const char* op, const Tensor& index) {
  const Tensor places = as_index(op, index);
  if (places.dim() > 1) throw ShapeError(text("[", op, "] expected an index [n], got ", places.sizes()));
  return places.reshape(-1);
}

// x has at least one dimension. source broadcasts to x's sizes, with the number of places along dim.
Tensor put(const Tensor& x, int dim, const Tensor& places, const Tensor& source) {
  Shape sizes = x.sizes(), along = Shape::filled(x.dim(), 1);
  sizes[dim] = along[dim] = places.numel();
  return scatter_elements(x, dim, places.view(along).expand(sizes), source.expand(sizes));
}

}  // namespace

Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  check_same_device("index_copy", x, index, source);
  const int d = wrap_dim("index_copy", dim, x.dim());
  const Tensor places = as_places("index_copy", index);
  Shape expected = x.sizes();
  if (!expected.empty()) expected[d] = places.numel();
  Tensor parts = source;
  if (source.dim() == 0 && x.dim() == 1) parts = source.reshape(1);
  if (source.dim() == 1 && x.dim() == 0 && source.numel() == 1) parts = source.reshape(Shape());
  if (parts.sizes() != expected || (x.dim() == 0 && places.numel() != 1))
    throw ShapeError(text("[index_copy] expected a source of x's sizes with the index's size along dimension ", d,
                          ", got ", source.sizes(), " for x ", x.sizes(), " and an index of ", places.numel()));
  if (source.dtype() != x.dtype())
    throw DTypeError(text("[index_copy] expected a source of ", x.dtype(), ", got ", source.dtype()));
  if (x.dim() == 0) return put(x.reshape(1), 0, places, parts.reshape(1)).view(Shape());
  return put(x, d, places, parts);
}

Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& value) {
  check_same_device("index_fill", x, index, value);
  const int d = wrap_dim("index_fill", dim, x.dim());
  if (value.dim() != 0) throw ShapeError(text("[index_fill] expected a number or a 0-dim value, got ", value.sizes()));
  if (value.dtype() != x.dtype())
    throw DTypeError(text("[index_fill] expected a value of ", x.dtype(), ", got ", value.dtype()));
  Tensor places = as_places("index_fill", index);
  places = where(lt(places, 0), places + double(x.dim() ? x.sizes()[d] : 1), places);
  if (x.dim() == 0) return put(x.reshape(1), 0, places, value).view(Shape());
  return put(x, d, places, value);
}

Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, double value) {
  const DType dtype = impl_of("index_fill", x).dtype;
  if (!is_floating(dtype) && dtype != kBool && !holds(dtype, value))
    throw DTypeError(text("[index_fill] expected a value that ", dtype, " can hold, got ", value));
  return index_fill(x, dim, index, full({}, value, {.dtype = dtype, .device = x.device()}));
}

}  // namespace lockstep
