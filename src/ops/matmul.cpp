// Products of matrices and vectors of all ranks.
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>

#include "core/text.h"
#include "ops/autocast.h"
#include "ops/float32_results.h"
#include "ops/product.h"
#include "ops/record.h"

namespace lockstep {
namespace {

[[noreturn]] void throw_shapes(const char* op, const char* expected, const Tensor& a, const Tensor& b) {
  throw ShapeError(text("[", op, "] expected ", expected, ", got ", a.sizes(), " and ", b.sizes()));
}

Tensor transposed(const Tensor& x) { return x.transpose(-1, -2); }

// Broadcasts the leading dimensions. a and b have at least two dimensions each, and their inner ones agree.
Tensor batched(const char* op, const Tensor& a, const Tensor& b) {
  const auto leading = [](const Tensor& x) { return Shape(std::span(x.sizes().begin(), std::size_t(x.dim() - 2))); };
  Shape sizes = broadcast(op, leading(a), leading(b));
  sizes.push_back(a.sizes()[a.dim() - 2]);
  sizes.push_back(b.sizes().back());
  Tensor out = make_tensor(*a.impl()->storage->device, sizes, a.dtype());
  multiply(out, a, b);
  if (records(a, b))
    record("Bmm", out, {&a, &b}, [x = Saved(a), y = Saved(b), nx = needs_grad(a), ny = needs_grad(b)](const Tensor& g) {
      const Tensor p = x.get(), q = y.get();
      return Gradients{nx ? sum_to(batched("bmm", g, transposed(q)), p.sizes()) : Tensor(),
                       ny ? sum_to(batched("bmm", transposed(p), g), q.sizes()) : Tensor()};
    });
  return out;
}

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) {
  if (const auto cast = autocast::product()) return mm(cast(a), cast(b));
  check_factors("mm", a, b);
  if (a.dim() != 2 || b.dim() != 2 || a.sizes()[1] != b.sizes()[0]) throw_shapes("mm", "[m, k] and [k, n]", a, b);
  Tensor out = make_tensor(*a.impl()->storage->device, {a.sizes()[0], b.sizes()[1]}, a.dtype());
  multiply(out, a, b);
  if (records(a, b))
    record("Mm", out, {&a, &b}, [x = Saved(a), y = Saved(b), nx = needs_grad(a), ny = needs_grad(b)](const Tensor& g) {
      return Gradients{nx ? mm(g, y.get().t()) : Tensor(), ny ? mm(x.get().t(), g) : Tensor()};
    });
  return out;
}

Tensor mm_as(DType dtype, const Tensor& a, const Tensor& b) {
  if (dtype != kFloat32 || a.dtype() != b.dtype() || !is_floating(a.dtype()) || size_of(a.dtype()) != 2 ||
      records(a, b))
    return mm(a, b).to(dtype);
  Tensor out = make_tensor(*a.impl()->storage->device, {a.sizes()[0], b.sizes()[1]}, dtype);
  multiply(out, a, b);
  return out;
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  if (const auto cast = autocast::product()) return bmm(cast(a), cast(b));
  check_factors("bmm", a, b);
  if (a.dim() != 3 || b.dim() != 3 || a.sizes()[0] != b.sizes()[0] || a.sizes()[2] != b.sizes()[1])
    throw_shapes("bmm", "[batch, m, k] and [batch, k, n]", a, b);
  return batched("bmm", a, b);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (const auto cast = autocast::product()) return matmul(cast(a), cast(b));
  check_factors("matmul", a, b);
  if (a.dim() == 0 || b.dim() == 0 || a.sizes().back() != b.sizes()[std::max(b.dim() - 2, 0)])
    throw_shapes("matmul", "[..., m, k] and [..., k, n] or vectors [k]", a, b);
  if (a.dim() == 1) return matmul(a.unsqueeze(0), b).squeeze(b.dim() == 1 ? 0 : -2);
  if (b.dim() == 1) return matmul(a, b.unsqueeze(1)).squeeze(-1);
  if (b.dim() > 2) return batched("matmul", a, b);
  if (a.dim() == 2) return mm(a, b);
  // b is one matrix: one product multiplies all rows of a with it.
  Shape sizes = a.sizes();
  std::int64_t rows = 1;
  for (int i = 0; i < a.dim() - 1; ++i) rows *= sizes[i];
  sizes[a.dim() - 1] = b.sizes()[1];
  return mm(a.reshape({rows, a.sizes().back()}), b).view(sizes);
}

Tensor mv(const Tensor& a, const Tensor& vector) {
  if (const auto cast = autocast::product()) return mv(cast(a), cast(vector));
  check_factors("mv", a, vector);
  if (a.dim() != 2 || vector.dim() != 1 || a.sizes()[1] != vector.sizes()[0])
    throw_shapes("mv", "[m, k] and [k]", a, vector);
  return matmul(a, vector);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  if (const auto cast = autocast::product()) return dot(cast(a), cast(b));
  check_factors("dot", a, b);
  if (a.dim() != 1 || b.dim() != 1 || a.sizes() != b.sizes()) throw_shapes("dot", "[k] and [k]", a, b);
  return matmul(a, b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  check_same_device("outer", a, b);
  if (a.dim() != 1 || b.dim() != 1) throw_shapes("outer", "[m] and [n]", a, b);
  return a.unsqueeze(1) * b.unsqueeze(0);
}

}  // namespace lockstep
