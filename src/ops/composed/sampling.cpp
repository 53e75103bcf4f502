#include <lockstep/ops/sampling.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/order.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "ops/dtypes.h"

namespace lockstep {

Tensor bernoulli(const Tensor& p) {
  check_floating("bernoulli", p);
  const NoGrad guard;
  return (rand_like(p) < p).to(p.dtype());
}

Tensor normal(const Tensor& mean, const Tensor& standard_deviation) {
  check_same_device("normal", mean, standard_deviation);
  check_floating("normal", mean), check_floating("normal", standard_deviation);
  const NoGrad guard;
  const Tensor scale = standard_deviation.to(result_type(mean, standard_deviation));
  const Shape sizes = broadcast("normal", mean.sizes(), scale.sizes());
  return mean + scale * randn(sizes, {.dtype = scale.dtype(), .device = mean.device()});
}
Tensor normal(const Tensor& mean, double standard_deviation) {
  return normal(mean, full_like(mean, standard_deviation));
}
Tensor normal(double mean, const Tensor& standard_deviation) {
  return normal(full_like(standard_deviation, mean), standard_deviation);
}
Tensor normal(double mean, double standard_deviation, const Shape& sizes, const TensorOptions& options) {
  Tensor draws = empty(sizes, options);
  return lockstep::normal_(draws, mean, standard_deviation);
}

Tensor multinomial(const Tensor& weights, std::int64_t count, bool replacement) {
  check_floating("multinomial", weights);
  if (weights.dim() != 1 && weights.dim() != 2)
    throw ShapeError(text("[multinomial] expected weights [n] or [rows, n], got ", weights.sizes()));
  const NoGrad guard;
  const Tensor wide = weights.to(kFloat64);
  const std::int64_t needed = replacement ? 1 : count;
  const bool valid = all((wide >= 0) & isfinite(wide)).item<bool>();
  if (count < 0 || !valid || (count && !all(sum(wide > 0, -1) >= double(needed)).item<bool>()))
    throw InvalidArgument(text("[multinomial] expected finite weights of at least 0, ", needed,
                               " or more of each row above 0, and a count of at least 0, got weights ", weights.sizes(),
                               valid ? "" : ", some negative or not finite,", " and count ", count));
  if (!replacement) {  // takes the shortest exponential waiting times with these rates (Efraimidis, Spirakis 2006)
    const Tensor waiting = -log1p(-rand_like(wide)) / wide;
    return topk(where(wide > 0, waiting, std::numeric_limits<double>::infinity()), count, -1, false).indices;
  }
  const Tensor until = cumsum(wide, -1);
  Shape sizes = weights.sizes();
  sizes[sizes.rank() - 1] = count;
  const Tensor total = until.slice(-1, -1, until.size(-1));
  const Tensor points = rand(sizes, {.dtype = kFloat64, .device = weights.device()}) * total;
  return sum(until.unsqueeze(-2) <= points.unsqueeze(-1), -1);
}

}  // namespace lockstep
