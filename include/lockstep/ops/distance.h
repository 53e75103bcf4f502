// Distances and similarities of vectors. Floating dtypes only, else DTypeError. Differentiable. Formulas and defaults
// are PyTorch's. Throw ShapeError for a dimension out of range and for shapes that do not broadcast.
#pragma once

#include <cstdint>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// dot(a, b) / (max(|a|, eps) max(|b|, eps)) of the vectors along `dim`, which is not in the result. a and b broadcast.
LOCKSTEP_API Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t dim = 1, double eps = 1e-8);

struct NormalizeOptions {
  double p = 2;  ///< The order of the norm, as in norm().
  std::int64_t dim = 1;
  double eps = 1e-12;
};
/// x / max(norm, eps), with the norm taken over vectors along `dim`.
LOCKSTEP_API Tensor normalize(const Tensor& x, const NormalizeOptions& options = {});

struct PairwiseDistanceOptions {
  double p = 2;
  double eps = 1e-6;  ///< Added to each difference.
  bool keep_dims = false;
};
/// The p-norm of a - b + eps along the last dimension. a and b broadcast.
LOCKSTEP_API Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseDistanceOptions& options = {});

/// The p-norm of each a_i - b_j. a: [..., m, features], b: [..., n, features], whose leading sizes broadcast; the
/// result: [..., m, n]. The gradient at a distance of 0 is 0. Throws InvalidArgument for a negative p.
LOCKSTEP_API Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);

}  // namespace lockstep
