// poisson_nll_loss and gaussian_nll_loss, made of ops. Computed in float32 or wider.
#include <lockstep/ops/likelihood_loss.h>

#include <cmath>
#include <numbers>

#include "ops/autocast.h"
#include "ops/loss.h"

namespace lockstep {
namespace {

// Stirling's approximation of log(target!) for targets above 1, else 0.
Tensor stirling(const Tensor& target) {
  const Tensor many = gt(target, 1.0);
  const Tensor n = where(many, target, 1);
  return where(many, n * log(n) - n + 0.5 * log(2 * std::numbers::pi * n), 0);
}

// The variance with a last dimension that broadcasts to the input's.
Tensor fitted_variance(const Tensor& input, const Tensor& variance) {
  if (variance.sizes() == input.sizes()) return variance;
  Shape rows = input.sizes();
  if (!rows.empty()) rows.erase(rows.rank() - 1);
  if (variance.sizes() == rows && !input.sizes().empty()) return variance.unsqueeze(-1);
  rows.push_back(1);
  if (variance.sizes() == rows) return variance;
  throw ShapeError(text("[gaussian_nll_loss] expected a variance of shape ", input.sizes(), " or ", rows, ", got ",
                        variance.sizes()));
}

}  // namespace

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonNllLossOptions& options) {
  if (const auto cast = autocast::wide()) return poisson_nll_loss(cast(input), cast(target), options);
  check_floating("poisson_nll_loss", input);
  check_target("poisson_nll_loss", input, target);
  const Tensor x = widened(input), t = widened(target);
  Tensor losses = options.log_input ? exp(x) - t * x : x - t * log(x + options.eps);
  if (options.full) losses = losses + stirling(t);
  return reduced(losses, options.reduction).to(result_type(input, target));
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& variance,
                         const GaussianNllLossOptions& options) {
  if (const auto cast = autocast::wide()) return gaussian_nll_loss(cast(input), cast(target), cast(variance), options);
  check_floating("gaussian_nll_loss", input);
  check_target("gaussian_nll_loss", input, target);
  check_same_device("gaussian_nll_loss", input, variance);
  if (!(options.eps > 0)) throw InvalidArgument(text("[gaussian_nll_loss] expected eps > 0, got ", options.eps));
  const Tensor x = widened(input), t = widened(target), given = widened(fitted_variance(input, variance));
  const Tensor fixed = given.detach();
  const Tensor v = given + (clamp(fixed, {.min = options.eps}) - fixed);
  Tensor losses = (log(v) + square(x - t) / v) / 2;
  if (options.full) losses = losses + std::log(2 * std::numbers::pi) / 2;
  return reduced(losses, options.reduction).to(promote(result_type(input, target), variance.dtype()));
}

}  // namespace lockstep
