// tensordot, kron and bilinear, made of matrix products.
#include <algorithm>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/einsum.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>

#include "ops/dtypes.h"

namespace lockstep {
namespace {

bool lists(const Shape& dims, std::int64_t dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

Shape wrapped(const Shape& dims, int rank) {
  Shape all;
  for (const std::int64_t dim : dims) {
    const std::int64_t d = wrap_dim("tensordot", dim, rank);
    if (lists(all, d)) throw ShapeError(text("[tensordot] expected each dimension once, got ", dims));
    all.push_back(d);
  }
  return all;
}

}  // namespace

Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t dims) {
  if (dims < 0 || dims > a.dim() || dims > b.dim())
    throw ShapeError(
        text("[tensordot] expected tensors of at least ", dims, " dimensions, got ", a.sizes(), " and ", b.sizes()));
  Shape last, first;
  for (std::int64_t i = 0; i < dims; ++i) {
    last.push_back(a.dim() - dims + i);
    first.push_back(i);
  }
  return tensordot(a, b, last, first);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& a_dims, const Shape& b_dims) {
  check_floating("tensordot", a);
  const Shape of_a = wrapped(a_dims, a.dim()), of_b = wrapped(b_dims, b.dim());
  bool fits = of_a.rank() == of_b.rank();
  for (int i = 0; fits && i < of_a.rank(); ++i) fits = a.size(of_a[i]) == b.size(of_b[i]);
  if (!fits)
    throw ShapeError(text("[tensordot] expected dimensions ", a_dims, " of a and ", b_dims,
                          " of b with equal sizes, got ", a.sizes(), " and ", b.sizes()));
  Shape a_order, b_order = of_b, sizes;
  std::int64_t rows = 1, inner = 1, columns = 1;
  for (int d = 0; d < a.dim(); ++d)
    if (!lists(of_a, d)) {
      a_order.push_back(d);
      sizes.push_back(a.size(d));
      rows *= a.size(d);
    }
  for (const std::int64_t d : of_a) {
    a_order.push_back(d);
    inner *= a.size(d);
  }
  for (int d = 0; d < b.dim(); ++d)
    if (!lists(of_b, d)) {
      b_order.push_back(d);
      sizes.push_back(b.size(d));
      columns *= b.size(d);
    }
  return mm(a.permute(a_order).reshape({rows, inner}), b.permute(b_order).reshape({inner, columns})).reshape(sizes);
}

Tensor kron(const Tensor& a, const Tensor& b) {
  const int rank = std::max(a.dim(), b.dim());
  Shape of_a, of_b, sizes;
  for (int d = 0; d < rank; ++d) {
    const int in_a = d - (rank - a.dim()), in_b = d - (rank - b.dim());
    const std::int64_t m = in_a < 0 ? 1 : a.size(in_a), n = in_b < 0 ? 1 : b.size(in_b);
    of_a.push_back(m);
    of_a.push_back(1);
    of_b.push_back(1);
    of_b.push_back(n);
    sizes.push_back(m * n);
  }
  return (a.reshape(of_a) * b.reshape(of_b)).reshape(sizes);
}

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias) {
  check_floating("bilinear", a);
  Shape leading = a.sizes(), of_b = b.sizes();
  const bool has_rank = a.dim() > 0 && b.dim() > 0 && weight.dim() == 3;
  if (has_rank) {
    leading.erase(leading.rank() - 1);
    of_b.erase(of_b.rank() - 1);
  }
  if (!has_rank || leading != of_b || a.size(-1) != weight.size(1) || b.size(-1) != weight.size(2))
    throw ShapeError(text("[bilinear] expected a [..., in1], b [..., in2] and a weight [out, in1, in2], got ",
                          a.sizes(), ", ", b.sizes(), " and ", weight.sizes()));
  const std::int64_t out = weight.size(0), rows = leading.elements();
  if (bias.defined() && bias.sizes() != Shape{out})
    throw ShapeError(text("[bilinear] expected a bias of shape ", Shape{out}, ", got ", bias.sizes()));
  const Tensor by_input = weight.permute({1, 0, 2}).reshape({weight.size(1), out * weight.size(2)});
  const Tensor left = mm(a.reshape({rows, weight.size(1)}), by_input).reshape({rows, out, weight.size(2)});
  const Tensor product = bmm(left, b.reshape({rows, weight.size(2), 1})).squeeze(2);
  leading.push_back(out);
  return (bias.defined() ? product + bias : product).reshape(leading);
}

}  // namespace lockstep
