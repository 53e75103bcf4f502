// Views: tensors with another geometry over the same storage. Each function computes the geometry of its view, and how
// the gradient of the view becomes that of the base.
#include <algorithm>
#include <limits>

#include <lockstep/ops/layout.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/indexing.h>

#include "autograd/views.h"
#include "core/text.h"
#include "ops/record.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

using autograd::view_of;

// The gradient of the base, dense: zeros, with the view's gradient written to the elements that view() selects.
template <class View>
Tensor scattered(const Tensor& gradient, const Shape& base, const View& view) {
  Tensor whole = make_tensor(*gradient.impl()->storage->device, base, gradient.dtype());
  fill_values(whole, 0);
  copy_values(view(whole), gradient);
  if (records(gradient)) record("Scatter", whole, {&gradient}, [view](const Tensor& g) { return Gradients{view(g)}; });
  return whole;
}

Shape infer(const char* op, const Shape& wanted, std::int64_t numel) {
  Shape sizes = wanted;
  int unknown = -1;
  for (int i = 0; i < sizes.rank(); ++i) {
    if (sizes[i] < -1 || (sizes[i] == -1 && unknown >= 0))
      throw ShapeError(text("[", op, "] expected sizes of at least 0 and at most one -1, got ", wanted));
    if (sizes[i] == -1) sizes[unknown = i] = 1;
  }
  const std::int64_t known = checked_elements(op, sizes);
  if (unknown >= 0 && known != 0 && numel % known == 0)
    sizes[unknown] = numel / known;
  else if (unknown >= 0 || known != numel)
    throw ShapeError(text("[", op, "] expected a shape of ", numel, " elements, got ", wanted));
  return sizes;
}

// The strides of shape `to` over the elements of (from, strides); false if only a copy can have that shape.
bool view_strides(const Shape& from, const Shape& strides, const Shape& to, Shape& result) {
  result = contiguous_strides(to);
  if (from.elements() == 0) return true;
  Shape sizes, steps;  // without dimensions of size 1, whose strides do not matter
  for (int i = 0; i < from.rank(); ++i)
    if (from[i] != 1) {
      sizes.push_back(from[i]);
      steps.push_back(strides[i]);
    }
  int j = to.rank() - 1;
  for (int i = sizes.rank() - 1; i >= 0; --i) {
    // Finds the next run of source dimensions that one stride describes, and the target dimensions that the run
    // becomes.
    const std::int64_t step = steps[i];
    std::int64_t run = sizes[i];
    for (; i > 0 && steps[i - 1] == sizes[i] * steps[i]; --i) run *= sizes[i - 1];
    std::int64_t filled = 1;
    for (; j >= 0 && (filled < run || to[j] == 1); --j) {
      result[j] = step * filled;
      filled *= to[j];
    }
    if (filled != run) return false;
  }
  return true;
}

Tensor viewed(const Tensor& x, const Shape& sizes, const Shape& strides) {
  Tensor out = view_of(x, sizes, strides, x.impl()->offset);
  if (records(x)) record("View", out, {&x}, [base = x.sizes()](const Tensor& g) { return Gradients{g.reshape(base)}; });
  return out;
}

}  // namespace

Tensor Tensor::view(const Shape& sizes) const {
  const TensorImpl& x = impl_of("view", *this);
  const Shape wanted = infer("view", sizes, x.numel);
  if (x.contiguous) return viewed(*this, wanted, contiguous_strides(wanted));
  Shape strides;
  if (!view_strides(x.sizes, x.strides, wanted, strides))
    throw ShapeError(text("[view] expected a shape that needs no copy, got ", wanted, " for sizes ", x.sizes,
                          " with strides ", x.strides, ": use reshape"));
  return viewed(*this, wanted, strides);
}

Tensor Tensor::reshape(const Shape& sizes) const {
  const TensorImpl& x = impl_of("reshape", *this);
  const Shape wanted = infer("reshape", sizes, x.numel);
  if (wanted == x.sizes) return viewed(*this, x.sizes, x.strides);
  Shape strides;
  if (x.contiguous) return viewed(*this, wanted, contiguous_strides(wanted));
  if (view_strides(x.sizes, x.strides, wanted, strides)) return viewed(*this, wanted, strides);
  return contiguous().view(wanted);
}

Tensor Tensor::flatten(std::int64_t start_dim, std::int64_t end_dim) const {
  const TensorImpl& x = impl_of("flatten", *this);
  const int first = wrap_dim("flatten", start_dim, x.sizes.rank()), last = wrap_dim("flatten", end_dim, x.sizes.rank());
  if (first > last)
    throw ShapeError(
        text("[flatten] expected start_dim <= end_dim, got ", start_dim, " and ", end_dim, " for ", x.sizes));
  Shape sizes;
  for (int i = 0; i < first; ++i) sizes.push_back(x.sizes[i]);
  std::int64_t merged = 1;
  for (int i = first; i <= last && i < x.sizes.rank(); ++i) merged *= x.sizes[i];
  sizes.push_back(merged);
  for (int i = last + 1; i < x.sizes.rank(); ++i) sizes.push_back(x.sizes[i]);
  return reshape(sizes);
}

Tensor unflatten(const Tensor& x, std::int64_t dim, const Shape& sizes) {
  const Shape& from = impl_of("unflatten", x).sizes;
  const int d = wrap_dim("unflatten", dim, from.rank());
  if (from.empty() || sizes.empty())
    throw ShapeError(
        text("[unflatten] expected x with dimensions, and at least one size, got x ", from, " and ", sizes));
  const Shape parts = infer("unflatten", sizes, from[d]);
  Shape wanted = from;
  wanted.erase(d);
  for (int i = 0; i < parts.rank(); ++i) wanted.insert(d + i, parts[i]);
  return x.view(wanted);
}

Tensor Tensor::select(std::int64_t dim, std::int64_t index) const {
  const TensorImpl& x = impl_of("select", *this);
  if (x.sizes.empty()) throw ShapeError("[select] expected a tensor with dimensions, got a 0-dim one");
  const int d = wrap_dim("select", dim, x.sizes.rank());
  const std::int64_t size = x.sizes[d];
  if (index < -size || index >= size)
    throw ShapeError(text("[select] expected an index in [", -size, ", ", size - 1, "] for dimension ", d, " of ",
                          x.sizes, ", got ", index));
  const std::int64_t at = index < 0 ? index + size : index;
  Shape sizes = x.sizes, strides = x.strides;
  sizes.erase(d);
  strides.erase(d);
  Tensor out = view_of(*this, sizes, strides, x.offset + at * x.strides[d]);
  if (records(*this))
    record("Select", out, {this}, [base = x.sizes, d, at](const Tensor& g) {
      return Gradients{scattered(g, base, [=](const Tensor& whole) { return whole.select(d, at); })};
    });
  return out;
}

Tensor Tensor::slice(std::int64_t dim, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                     std::int64_t step) const {
  const TensorImpl& x = impl_of("slice", *this);
  if (x.sizes.empty()) throw ShapeError("[slice] expected a tensor with dimensions, got a 0-dim one");
  const int d = wrap_dim("slice", dim, x.sizes.rank());
  if (step < 1) throw ShapeError(text("[slice] expected a step of at least 1, got ", step));
  const std::int64_t size = x.sizes[d];
  const auto position = [size](std::int64_t p) { return std::clamp<std::int64_t>(p < 0 ? p + size : p, 0, size); };
  const std::int64_t from = position(start.value_or(0)), to = std::max(from, position(stop.value_or(size)));
  Shape sizes = x.sizes, strides = x.strides;
  sizes[d] = (to - from) / step + ((to - from) % step != 0);
  if (sizes[d] > 1) strides[d] *= step;
  Tensor out = view_of(*this, sizes, strides, x.offset + from * x.strides[d]);
  if (records(*this))
    record("Slice", out, {this}, [base = x.sizes, d, from, to, step](const Tensor& g) {
      return Gradients{scattered(g, base, [=](const Tensor& whole) { return whole.slice(d, from, to, step); })};
    });
  return out;
}

Tensor Tensor::narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const {
  const std::int64_t available = size(dim);
  if (start < 0 || length < 0 || start > available - length)
    throw ShapeError(
        text("[narrow] expected a part of ", available, " elements, got length ", length, " from ", start));
  return slice(dim, start, start + length);
}

Tensor Tensor::permute(const Shape& dims) const {
  const TensorImpl& x = impl_of("permute", *this);
  Shape sizes = x.sizes, strides = x.strides, inverse = x.sizes;
  std::uint32_t seen = 0;
  for (int i = 0; i < dims.rank() && dims.rank() == x.sizes.rank(); ++i) {
    const int d = wrap_dim("permute", dims[i], x.sizes.rank());
    seen |= 1u << d;
    sizes[i] = x.sizes[d];
    strides[i] = x.strides[d];
    inverse[d] = i;
  }
  if (dims.rank() != x.sizes.rank() || seen != (1u << x.sizes.rank()) - 1)
    throw ShapeError(text("[permute] expected each dimension of ", x.sizes, " once, got ", dims));
  Tensor out = view_of(*this, sizes, strides, x.offset);
  if (records(*this))
    record("Permute", out, {this}, [inverse](const Tensor& g) { return Gradients{g.permute(inverse)}; });
  return out;
}

Tensor Tensor::transpose(std::int64_t dim0, std::int64_t dim1) const {
  const int rank = impl_of("transpose", *this).sizes.rank();
  const int a = wrap_dim("transpose", dim0, rank), b = wrap_dim("transpose", dim1, rank);
  if (rank == 0) return viewed(*this, sizes(), strides());
  Shape dims = Shape::filled(rank, 0);
  for (int i = 0; i < rank; ++i) dims[i] = i == a ? b : i == b ? a : i;
  return permute(dims);
}

Tensor Tensor::t() const {
  const Shape& sizes = impl_of("t", *this).sizes;
  if (sizes.rank() > 2) throw ShapeError(text("[t] expected at most 2 dimensions, got ", sizes));
  return sizes.rank() < 2 ? viewed(*this, sizes, strides()) : transpose(0, 1);
}

Tensor Tensor::squeeze(std::int64_t dim) const {
  const TensorImpl& x = impl_of("squeeze", *this);
  const int d = wrap_dim("squeeze", dim, x.sizes.rank());
  if (x.sizes.empty() || x.sizes[d] != 1) return viewed(*this, x.sizes, x.strides);
  Shape sizes = x.sizes, strides = x.strides;
  sizes.erase(d);
  strides.erase(d);
  return viewed(*this, sizes, strides);
}

Tensor Tensor::unsqueeze(std::int64_t dim) const {
  const TensorImpl& x = impl_of("unsqueeze", *this);
  const int d = wrap_dim("unsqueeze", dim, x.sizes.rank() + 1);
  Shape sizes = x.sizes, strides = x.strides;
  strides.insert(d, d < x.sizes.rank() ? x.sizes[d] * x.strides[d] : 1);
  sizes.insert(d, 1);
  return viewed(*this, sizes, strides);
}

Tensor Tensor::expand(const Shape& sizes) const {
  const TensorImpl& x = impl_of("expand", *this);
  const int extra = sizes.rank() - x.sizes.rank();
  Shape wanted = sizes, strides = Shape::filled(sizes.rank(), 0);
  for (int i = 0; i < sizes.rank(); ++i) {
    const std::int64_t own = i >= extra ? x.sizes[i - extra] : 1;
    if (i >= extra && wanted[i] == -1) wanted[i] = own;
    if (extra < 0 || wanted[i] < 0 || (own != 1 && own != wanted[i]))
      throw ShapeError(text("[expand] expected a shape that ", x.sizes, " broadcasts to, got ", sizes));
    if (i >= extra && (own == wanted[i])) strides[i] = x.strides[i - extra];
  }
  if (extra < 0) throw ShapeError(text("[expand] expected at least ", x.sizes.rank(), " dimensions, got ", sizes));
  checked_elements("expand", wanted);
  Tensor out = view_of(*this, wanted, strides, x.offset);
  if (records(*this))
    record("Expand", out, {this}, [base = x.sizes](const Tensor& g) { return Gradients{sum_to(g, base)}; });
  return out;
}

Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t dim0, std::int64_t dim1) {
  const TensorImpl& from = impl_of("diagonal", x);
  const int rank = from.sizes.rank(), a = wrap_dim("diagonal", dim0, rank), b = wrap_dim("diagonal", dim1, rank);
  if (rank < 2 || a == b)
    throw ShapeError(text("[diagonal] expected two dimensions, got ", a, " and ", b, " of ", from.sizes));
  const std::int64_t down = std::clamp<std::int64_t>(-offset, 0, from.sizes[a]);
  const std::int64_t right = std::clamp<std::int64_t>(offset, 0, from.sizes[b]);
  Shape sizes = from.sizes, strides = from.strides;
  for (const int d : {std::max(a, b), std::min(a, b)}) sizes.erase(d), strides.erase(d);
  sizes.push_back(std::min(from.sizes[a] - down, from.sizes[b] - right));
  strides.push_back(from.strides[a] + from.strides[b]);
  Tensor out = view_of(x, sizes, strides, from.offset + down * from.strides[a] + right * from.strides[b]);
  if (records(x))
    record("Diagonal", out, {&x}, [base = from.sizes, offset, a, b](const Tensor& g) {
      return Gradients{scattered(g, base, [=](const Tensor& whole) { return diagonal(whole, offset, a, b); })};
    });
  return out;
}

Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to) {
  const int rank = impl_of("movedim", x).sizes.rank();
  const int source = wrap_dim("movedim", from, rank), target = wrap_dim("movedim", to, rank);
  if (rank == 0) return x;
  Shape dims;
  for (int i = 0; i < rank; ++i)
    if (i != source) dims.push_back(i);
  dims.insert(target, source);
  return x.permute(dims);
}

void detail::throw_no_index(std::string_view text_given) {
  throw InvalidArgument(
      text("[index] expected a number, a Slice, None, a tensor, or the text \"...\", got \"", text_given, '"'));
}

Tensor Tensor::index(std::initializer_list<Index> indices) const {
  int used = 0;  // dimensions that the indices use
  bool ellipsis = false;
  for (const Index& index : indices) {
    used += index.kind() == Index::Kind::integer || index.kind() == Index::Kind::slice;
    if (index.kind() == Index::Kind::ellipsis && std::exchange(ellipsis, true))
      throw ShapeError("[index] expected at most one Ellipsis, got two");
  }
  if (used > dim())
    throw ShapeError(text("[index] expected at most ", dim(), " indices for shape ", sizes(), ", got ", used));
  Tensor result = *this;
  int d = 0;
  for (const Index& index : indices) switch (index.kind()) {
      case Index::Kind::integer: result = result.select(d, index.integer()); break;
      case Index::Kind::slice:
        result = result.slice(d++, index.slice().start, index.slice().stop, index.slice().step);
        break;
      case Index::Kind::ellipsis: d += dim() - used; break;
      case Index::Kind::none: result = result.unsqueeze(d++); break;
    }
  return result;
}

}  // namespace lockstep
