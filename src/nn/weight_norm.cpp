#include <lockstep/nn/weight_norm.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/distance.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/random.h>

#include "core/text.h"

namespace lockstep::nn::detail {
namespace {

constexpr int kFirstIterations = 15;  // PyTorch's number

}  // namespace

Tensor taken_weight(const char* wrapper, Parameter& weight) {
  if (!weight.defined()) throw InvalidArgument(text("[", wrapper, "] expected a layer with a weight, got one without"));
  const Tensor taken = weight.detach();
  static_cast<Tensor&>(weight) = Tensor();
  return taken;
}

Tensor norm_except(const Tensor& x, std::int64_t dim) {
  const std::int64_t kept = dim < 0 ? dim + x.dim() : dim;
  Shape dims;
  for (int d = 0; d < x.dim(); ++d)
    if (d != kept) dims.push_back(d);
  if (dims.rank() == x.dim()) throw ShapeError(text("[weight_norm] expected a dimension of the weight, got ", dim));
  return dims.empty() ? abs(x) : norm(x, 2, dims, true);
}

Tensor as_matrix(const Tensor& weight, std::int64_t dim) {
  if (weight.dim() < 2)
    throw ShapeError(text("[spectral_norm] expected a weight of at least 2 dimensions, got ", weight.sizes()));
  return weight.transpose(0, dim).flatten(1);
}

std::pair<Tensor, Tensor> first_singular_vectors(const Tensor& matrix, double eps) {
  const TensorOptions like = matrix.options();
  Tensor u = normalize(randn({matrix.size(0)}, like), {.dim = 0, .eps = eps});
  Tensor v = normalize(randn({matrix.size(1)}, like), {.dim = 0, .eps = eps});
  for (int i = 0; i < kFirstIterations; ++i) power_iteration(matrix, u, v, eps);
  return {u, v};
}

void power_iteration(const Tensor& matrix, Tensor& u, Tensor& v, double eps) {
  const NoGrad guard;
  u.copy_(normalize(matmul(matrix, v), {.dim = 0, .eps = eps}));
  v.copy_(normalize(matmul(matrix.t(), u), {.dim = 0, .eps = eps}));
}

Tensor over_largest_singular_value(const Tensor& weight, std::int64_t dim, const Tensor& u, const Tensor& v) {
  return weight / dot(u, matmul(as_matrix(weight, dim), v));
}

}  // namespace lockstep::nn::detail
