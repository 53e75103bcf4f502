// Norms, variances and standard deviations, from sums of squares.
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

namespace lockstep {
namespace {

enum class Finish : std::uint8_t { none, root };

template <class C>
struct Squares {
  using Accumulator = C;
  C scale;
  bool root;
  LOCKSTEP_HD C identity() const { return 0; }
  LOCKSTEP_HD C load(C x) const { return x * x; }
  LOCKSTEP_HD C combine(C a, C b) const { return a + b; }
  LOCKSTEP_HD C finish(C a, std::int64_t) const { return root ? std::sqrt(a * scale) : a * scale; }
};

// scale * sum(x^2), or its square root. Floating dtypes only. Not recorded.
Tensor sum_squares(const char* op, const Tensor& x, const DimMask& mask, bool keep_dims, double scale, Finish finish) {
  const TensorImpl& from = *x.impl();
  Tensor out = make_tensor(*from.storage->device, reduced_sizes(from.sizes, mask, keep_dims), from.dtype);
  visit_floating(op, from.dtype, [&]<class T>() {
    using C = ComputeType<T>;
    reduce<T, T>(op, Squares<C>{C(scale), finish == Finish::root}, out, x, mask);
  });
  return out;
}

// n, but 1 where n is 0. Division by this gives the gradient 0, not NaN, to a zero vector or one of equal elements.
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

Tensor centered(const Tensor& x, const Shape& dims) { return x - mean(x, dims, true); }

Tensor variance(const char* op, const Tensor& x, const DimMask& mask, const VarianceOptions& options, Finish finish) {
  check_floating(op, x);
  if (size_of(x.dtype()) == 2)  // the differences need more precision than the elements
    return variance(op, x.to(kFloat32), mask, options, finish).to(x.dtype());
  const Shape dims = dims_of(mask, x.dim());
  const double freedom = std::max(0.0, double(reduced_count(x.sizes(), mask)) - double(options.correction));
  Tensor out = sum_squares(op, centered(x.detach(), dims), mask, options.keep_dims, 1 / freedom, finish);
  if (records(x))
    record(finish == Finish::root ? "Stddev" : "Var", out, {&x},
           [x = Saved(x), y = Saved(out, kOutput), dims, kept = reduced_sizes(x.sizes(), mask, true), freedom,
            finish](const Tensor& g) {
             Tensor share = g;
             if (finish == Finish::root) share = g / (divisor(y.get()) * 2);
             return Gradients{centered(x.get(), dims) * (share.reshape(kept) * (2 / freedom))};
           });
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

Tensor var(const Tensor& x) { return var(x, Shape()); }

Tensor var(const Tensor& x, const Shape& dims, const VarianceOptions& options) {
  return variance("var", x, mask_or_all("var", dims, impl_of("var", x).sizes.rank()), options, Finish::none);
}

Tensor stddev(const Tensor& x) { return stddev(x, Shape()); }

Tensor stddev(const Tensor& x, const Shape& dims, const VarianceOptions& options) {
  return variance("stddev", x, mask_or_all("stddev", dims, impl_of("stddev", x).sizes.rank()), options, Finish::root);
}

std::tuple<Tensor, Tensor> var_mean(const Tensor& x) { return {var(x), mean(x)}; }
std::tuple<Tensor, Tensor> var_mean(const Tensor& x, const Shape& dims, const VarianceOptions& options) {
  return {var(x, dims, options), mean(x, dims, options.keep_dims)};
}
std::tuple<Tensor, Tensor> std_mean(const Tensor& x) { return {stddev(x), mean(x)}; }
std::tuple<Tensor, Tensor> std_mean(const Tensor& x, const Shape& dims, const VarianceOptions& options) {
  return {stddev(x, dims, options), mean(x, dims, options.keep_dims)};
}

}  // namespace lockstep
