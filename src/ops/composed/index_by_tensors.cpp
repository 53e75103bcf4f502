// x.index({mask}), x.index({rows, Slice(), columns}) and index_put_: merges the dimensions that are indexed by tensors
// into a single one, and selects elements along it.
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/indexing.h>

#include "autograd/in_place.h"
#include "core/text.h"
#include "ops/index_check.h"
#include "ops/record.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

struct Indexed {
  Tensor view;  // x after all other indices, with the dimensions that tensors index in front: [indexed..., others...]
  int count;    // number of indexed dimensions
  // The positions to read, in the indexed dimensions joined into one. int64, in the shape that the index tensors
  // broadcast to.
  Tensor place;
  int at;  // the dimension of the result at which the shape of `place` begins

  Shape others() const {
    Shape sizes;
    for (int i = count; i < view.dim(); ++i) sizes.push_back(view.sizes()[i]);
    return sizes;
  }
  // [indexed, others...]: a view if possible.
  Tensor rows() const {
    Shape sizes = others();
    std::int64_t size = 1;
    for (int i = 0; i < count; ++i) size *= view.sizes()[i];
    sizes.insert(0, size);
    return view.reshape(sizes);
  }
  // The permutation of the dimensions [place's..., others...] that gives the result's order.
  Shape order() const {
    const int rank = place.dim(), all = rank + view.dim() - count;
    Shape dims;
    for (int i = 0; i < at; ++i) dims.push_back(rank + i);
    for (int i = 0; i < rank; ++i) dims.push_back(i);
    for (int i = rank + at; i < all; ++i) dims.push_back(i);
    return dims;
  }
};

[[noreturn]] void throw_too_many(const Tensor& x, int used) {
  throw ShapeError(
      text("[index] expected indices for at most ", x.dim(), " dimensions of shape ", x.sizes(), ", got ", used));
}

bool is_mask(const ElementIndex& index) { return index.places().defined() && index.places().dtype() == kBool; }

int dimensions_of(const ElementIndex& index) {
  if (is_mask(index)) return index.places().dim();
  const bool one = index.index().kind() == Index::Kind::integer || index.index().kind() == Index::Kind::slice;
  return index.places().defined() || one;
}

// int64, with negative indices made positive.
Tensor from_front(const Tensor& index, std::int64_t size) {
  const Tensor places = as_index("index", index);
  const Tensor front = where(places < 0, places + double(size), places);
  check_index("index", front, size);
  return front;
}

Indexed indexed(const Tensor& x, std::span<const ElementIndex> indices) {
  int used = 0, ellipses = 0;
  for (const ElementIndex& index : indices) {
    used += dimensions_of(index);
    ellipses += !index.places().defined() && index.index().kind() == Index::Kind::ellipsis;
    if (index.places().defined()) check_same_device("index", x, index.places());
  }
  if (used > x.dim()) throw_too_many(x, used);
  if (ellipses > 1) throw ShapeError("[index] expected at most one Ellipsis, got two");

  Tensor view = x;
  Shape dims;                   // the dimensions that tensors index
  std::vector<Tensor> indexes;  // the index tensors
  int d = 0;
  for (const ElementIndex& index : indices) {
    if (is_mask(index)) {
      const Tensor& mask = index.places();
      for (int i = 0; i < mask.dim(); ++i)
        if (mask.sizes()[i] != view.sizes()[d + i])
          throw ShapeError(text("[index] expected a bool mask with the sizes of the dimensions that it indexes, got ",
                                mask.sizes(), " at dimension ", d, " of ", view.sizes()));
      const Tensor places = nonzero(mask);
      for (int i = 0; i < mask.dim(); ++i) dims.push_back(d++), indexes.push_back(places.select(1, i));
    } else if (index.places().defined()) {
      indexes.push_back(from_front(index.places(), view.sizes()[d]));
      dims.push_back(d++);
    } else {
      switch (index.index().kind()) {
        case Index::Kind::integer: view = view.select(d, index.index().integer()); break;
        case Index::Kind::slice: {
          const Slice& slice = index.index().slice();
          view = view.slice(d++, slice.start, slice.stop, slice.step);
          break;
        }
        case Index::Kind::ellipsis: d += x.dim() - used; break;
        case Index::Kind::none: view = view.unsqueeze(d++); break;
      }
    }
  }
  Shape sizes;
  for (const Tensor& index : indexes) sizes = broadcast("index", sizes, index.sizes());
  bool together = true;
  for (int i = 1; i < dims.rank(); ++i) together = together && dims[i] == dims[i - 1] + 1;
  Tensor place = zeros(sizes, {.dtype = kInt64, .device = x.device()});
  Shape order = dims;
  for (int i = 0; i < view.dim(); ++i)
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) order.push_back(i);
  for (int i = 0; i < dims.rank(); ++i) place = place * double(view.sizes()[dims[i]]) + indexes[std::size_t(i)];
  const int at = together && !dims.empty() ? int(dims[0]) : 0;
  return {view.permute(order), dims.rank(), place, at};
}

}  // namespace

Tensor Tensor::picked(std::span<const ElementIndex> indices) const {
  impl_of("index", *this);
  const Indexed from = indexed(*this, indices);
  Shape sizes = from.place.sizes();
  for (const std::int64_t size : from.others()) sizes.push_back(size);
  const Tensor rows = lockstep::index_select(from.rows(), 0, from.place.reshape(-1));
  const Tensor result = rows.reshape(sizes).permute(from.order());
  return result.contiguous();
}

const Tensor Tensor::operator[](const Tensor& index) const {
  const ElementIndex indices[] = {index};
  return picked(indices);
}

// Makes a tensor of x's shape that holds the row-major position of each element, and indexes it with `indices`. The
// result holds the positions to write.
Tensor& Tensor::index_put_(std::initializer_list<ElementIndex> indices, const Tensor& values, bool accumulate) {
  autograd::check_in_place("index_put_", *this, values);
  check_same_device("index_put_", *this, values);
  const Tensor numbers = arange(double(numel()), {.dtype = kInt64, .device = device()}).view(sizes());
  const Tensor places = numbers.picked({indices.begin(), indices.size()});
  if (broadcast("index_put_", places.sizes(), values.sizes()) != places.sizes())
    throw ShapeError(text("[index_put_] expected values that broadcast to ", places.sizes(), ", got ", values.sizes()));
  const Tensor before = (records(*this) ? clone() : *this).reshape(-1);
  const Tensor at = places.reshape(-1), source = values.to(dtype()).expand(places.sizes()).reshape(-1);
  const Tensor after =
      accumulate ? lockstep::scatter_add(before, 0, at, source) : scatter_elements(before, 0, at, source);
  return copy_(after.view(sizes()));
}

Tensor& Tensor::index_put_(std::initializer_list<ElementIndex> indices, double value) {
  return index_put_(indices, full({}, value, {.dtype = dtype(), .device = device()}));
}

}  // namespace lockstep
