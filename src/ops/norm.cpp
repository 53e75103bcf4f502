#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include <cmath>

#include "ops/autocast.h"
#include "ops/dtypes.h"
#include "ops/record.h"
#include "ops/reduced_dims.h"
#include "ops/squares.h"

namespace lockstep {
namespace {

// n, or 1 where n is 0: so that a zero vector gets the gradient 0.
Tensor divisor(const Tensor& n) { return n + eq(n, 0).to(n.dtype()); }

Tensor euclidean(const Tensor& x, const DimMask& mask, bool keep_dims) {
  Tensor out = sum_squares("norm", x, mask, keep_dims, 1, Finish::root);
  if (records(x))
    record("Norm", out, {&x},
           [x = Saved(x), y = Saved(out, kOutput), kept = reduced_sizes(x.sizes(), mask, true)](const Tensor& g) {
             const Tensor share = widened(g) / divisor(widened(y.get()));  // may overflow 16 bits if the norm is small
             return Gradients{(widened(x.get()) * share.reshape(kept)).to(g.dtype())};
           });
  return out;
}

Tensor general(const Tensor& x, double p, const DimMask& mask, bool keep_dims) {
  if (size_of(x.dtype()) == 2) return general(x.to(kFloat32), p, mask, keep_dims).to(x.dtype());
  Tensor out = pow(sum(pow(abs(x.detach()), p), dims_of(mask, x.dim()), keep_dims), 1 / p);
  if (records(x))
    record("Norm", out, {&x},
           [x = Saved(x), y = Saved(out, kOutput), kept = reduced_sizes(x.sizes(), mask, true), p](const Tensor& g) {
             // sign(x) (|x| / n)^(p - 1); 0 for x = 0, and for n = 0, which a single 0 gives if p < 0
             const Tensor v = x.get(), size = abs(v), n = y.get();
             const Tensor zero = eq(v, 0), none = eq(n, 0).reshape(kept);
             const Tensor ratio = where(none, 1, where(zero, 1, size / divisor(n).reshape(kept)));
             const Tensor sign = v.detach() / where(zero, 1, size.detach());
             const Tensor slope = where(none, 0, where(zero, 0, sign * pow(ratio, p - 1)));
             return Gradients{slope * g.reshape(kept)};
           });
  return out;
}

// The number of nonzero elements; its gradient is 0.
Tensor count(const Tensor& x, const Shape& dims, bool keep_dims) {
  Tensor out = sum(ne(x, 0).to(x.dtype()), dims, keep_dims);
  if (records(x))
    record("Norm", out, {&x}, [sizes = x.sizes()](const Tensor& g) { return Gradients{zeros(sizes, g.options())}; });
  return out;
}

}  // namespace

Tensor norm(const Tensor& x, double p) { return norm(x, p, Shape()); }

Tensor norm(const Tensor& x, double p, const Shape& dims, bool keep_dims) {
  if (const auto cast = autocast::wide()) return norm(cast(x), p, dims, keep_dims);
  const DimMask mask = mask_or_all("norm", dims, impl_of("norm", x).sizes.rank());
  check_floating("norm", x);
  if (p == 2) return euclidean(x, mask, keep_dims);
  if (p == 1) return sum(abs(x), dims, keep_dims);
  if (p == 0) return count(x, dims, keep_dims);
  if (std::isinf(p)) return p > 0 ? amax(abs(x), dims, keep_dims) : amin(abs(x), dims, keep_dims);
  if (std::isnan(p)) throw InvalidArgument("[norm] expected an order, got NaN");
  return general(x, p, mask, keep_dims);
}

}  // namespace lockstep
