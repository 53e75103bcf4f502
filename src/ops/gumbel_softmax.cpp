// softmin and gumbel_softmax, made of softmax.
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/ops/unary.h>

#include "ops/batch_noise.h"
#include "ops/dtypes.h"

namespace lockstep {
namespace {

// 1 at the greatest element along `dim`, else 0.
Tensor one_hot_of_greatest(const Tensor& x, int dim) {
  return movedim(one_hot(argmax(x, dim), x.sizes()[dim]).to(x.dtype()), -1, dim);
}

}  // namespace

Tensor softmin(const Tensor& x, std::int64_t dim) {
  check_floating("softmin", x);
  return softmax(-x, dim);
}

Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options) {
  check_floating("gumbel_softmax", logits);
  const int dim = wrap_dim("gumbel_softmax", options.dim, logits.dim());
  if (!(options.tau > 0)) throw InvalidArgument(text("[gumbel_softmax] expected tau > 0, got ", options.tau));
  const Tensor x = widened(logits);
  // Uniform numbers from 2^-23 on: log(0), and log of a number that rounds to 1, would give infinities.
  const Tensor uniform = uniform_for_batch("gumbel_softmax", x, 0x1p-23, 1);
  const Tensor soft = softmax((x - log(-log(uniform))) / options.tau, dim).to(logits.dtype());
  if (!options.hard || logits.dim() == 0) return soft;
  return one_hot_of_greatest(soft.detach(), dim) - soft.detach() + soft;
}

}  // namespace lockstep
