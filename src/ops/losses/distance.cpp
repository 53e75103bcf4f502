// Losses of distances, made of norms.
#include <lockstep/ops/distance.h>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>

#include "ops/autocast.h"
#include "ops/dtypes.h"

namespace lockstep {

Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t dim, double eps) {
  if (const auto cast = autocast::wide()) return cosine_similarity(cast(a), cast(b), dim, eps);
  check_floating("cosine_similarity", a);
  check_same_device("cosine_similarity", a, b);
  const Shape sizes = broadcast("cosine_similarity", a.sizes(), b.sizes());
  const std::int64_t d = wrap_dim("cosine_similarity", dim, sizes.rank());
  const Tensor x = a.expand(sizes), y = b.expand(sizes);
  const Tensor x_unit = x / clamp(norm(x, 2, {d}, true), {.min = eps});
  const Tensor y_unit = y / clamp(norm(y, 2, {d}, true), {.min = eps});
  return sum(x_unit * y_unit, {d});
}

Tensor normalize(const Tensor& x, const NormalizeOptions& options) {
  if (const auto cast = autocast::wide()) return normalize(cast(x), options);
  check_floating("normalize", x);
  return x / clamp(norm(x, options.p, {options.dim}, true), {.min = options.eps});
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseDistanceOptions& options) {
  if (const auto cast = autocast::wide()) return pairwise_distance(cast(a), cast(b), options);
  check_floating("pairwise_distance", a);
  check_same_device("pairwise_distance", a, b);
  return norm(a - b + options.eps, options.p, {-1}, options.keep_dims);
}

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  if (const auto cast = autocast::wide()) return cdist(cast(a), cast(b), p);
  check_floating("cdist", a);
  check_same_device("cdist", a, b);
  if (!(p >= 0)) throw InvalidArgument(text("[cdist] expected p >= 0, got ", p));
  if (a.dim() < 2 || b.dim() < 2 || a.size(-1) != b.size(-1))
    throw ShapeError(
        text("[cdist] expected a [..., m, features] and b [..., n, features], got ", a.sizes(), " and ", b.sizes()));
  return norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, {-1});
}

}  // namespace lockstep
