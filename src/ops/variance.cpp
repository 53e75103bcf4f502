#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/reduce.h>

#include "ops/record.h"
#include "ops/reduced_dims.h"
#include "ops/squares.h"

namespace lockstep {
namespace {

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
             if (finish == Finish::root) {
               const Tensor root = y.get();
               share = g / ((root + eq(root, 0).to(root.dtype())) * 2);  // divides by 1 where the deviation is 0: then
                                                                         // 0 / 1
             }
             return Gradients{centered(x.get(), dims) * (share.reshape(kept) * (2 / freedom))};
           });
  return out;
}

}  // namespace

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
