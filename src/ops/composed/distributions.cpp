#include <lockstep/ops/distributions.h>

#include <cmath>
#include <numbers>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/sampling.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "ops/dtypes.h"

namespace lockstep::distributions {
namespace {

// Broadcasts a and b to one shape and promotes them to one dtype.
void join(const char* op, Tensor& a, Tensor& b) {
  check_same_device(op, a, b);
  check_floating(op, a), check_floating(op, b);
  const Shape sizes = broadcast(op, a.sizes(), b.sizes());
  a = a.expand(sizes);
  b = b.expand(sizes);
}

Shape before(const Shape& sizes, const Shape& own) {
  Shape all = sizes;
  for (const std::int64_t size : own) all.push_back(size);
  return all;
}

const Tensor& only(const char* op, const Probabilities& given) {
  if (given.probs.has_value() == given.logits.has_value())
    throw InvalidArgument(text("[", op, "] expected either probs or logits, got ", given.probs ? "both" : "neither"));
  const Tensor& one = given.probs ? *given.probs : *given.logits;
  check_floating(op, one);
  return one;
}

// x log(x), and 0 at 0.
Tensor times_log(const Tensor& x) { return x * log(where(x > 0, x, 1)); }

}  // namespace

Normal::Normal(const Tensor& loc, const Tensor& scale) : loc_(loc), scale_(scale) { join("Normal", loc_, scale_); }
Normal::Normal(double loc, double scale) : Normal(full({}, loc), full({}, scale)) {}

Tensor Normal::sample(const Shape& sizes) const {
  const NoGrad guard;
  return rsample(sizes);
}
Tensor Normal::rsample(const Shape& sizes) const {
  return loc_ + scale_ * randn(before(sizes, loc_.sizes()), loc_.options());
}
Tensor Normal::log_prob(const Tensor& value) const {
  return square((value - loc_) / scale_) * -0.5 - log(scale_) - 0.5 * std::log(2 * std::numbers::pi);
}
Tensor Normal::entropy() const { return log(scale_) + (0.5 + 0.5 * std::log(2 * std::numbers::pi)); }

Uniform::Uniform(const Tensor& low, const Tensor& high) : low_(low), high_(high) { join("Uniform", low_, high_); }
Uniform::Uniform(double low, double high) : Uniform(full({}, low), full({}, high)) {}

Tensor Uniform::sample(const Shape& sizes) const {
  const NoGrad guard;
  return rsample(sizes);
}
Tensor Uniform::rsample(const Shape& sizes) const {
  return low_ + (high_ - low_) * rand(before(sizes, low_.sizes()), low_.options());
}
Tensor Uniform::log_prob(const Tensor& value) const {
  const Tensor inside = (value >= low_) & (value < high_);
  return where(inside, -log(high_ - low_), -INFINITY);
}
Tensor Uniform::entropy() const { return log(high_ - low_); }
Tensor Uniform::mean() const { return (low_ + high_) / 2; }

Bernoulli::Bernoulli(const Probabilities& given) {
  const Tensor& one = only("Bernoulli", given);
  probs_ = given.probs ? one : sigmoid(one);
  logits_ = given.logits ? one : log(one) - log1p(-one);
}
Tensor Bernoulli::sample(const Shape& sizes) const {
  const NoGrad guard;
  return bernoulli(probs_.expand(before(sizes, probs_.sizes())));
}
Tensor Bernoulli::log_prob(const Tensor& value) const {  // v log(p) + (1 - v) log(1 - p)
  return value * logits_ - softplus(logits_);
}
Tensor Bernoulli::entropy() const { return -(times_log(probs_) + times_log(1 - probs_)); }

Categorical::Categorical(const Probabilities& given) {
  const Tensor& one = only("Categorical", given);
  if (one.dim() == 0) throw ShapeError("[Categorical] expected parameters [..., classes], got a 0-dim tensor");
  logits_ = given.logits ? log_softmax(one, -1) : log(one / sum(one, -1, true));
}
Tensor Categorical::probs() const { return exp(logits_); }
Tensor Categorical::sample(const Shape& sizes) const {
  const NoGrad guard;
  const std::int64_t classes = logits_.size(-1), draws = sizes.elements();
  Shape rows = logits_.sizes();
  rows.erase(rows.rank() - 1);
  const Tensor drawn = multinomial(probs().reshape({-1, classes}), draws, true);  // [rows, draws]
  return drawn.t().reshape(before(sizes, rows));
}
Tensor Categorical::log_prob(const Tensor& value) const {
  Shape classes = logits_.sizes();
  const std::int64_t count = classes.back();
  classes.erase(classes.rank() - 1);
  const Shape sizes = broadcast("Categorical::log_prob", value.sizes(), classes);
  return gather_elements(logits_.expand(before(sizes, count)), -1, value.expand(sizes).unsqueeze(-1)).squeeze(-1);
}
Tensor Categorical::entropy() const {
  const Tensor p = probs();
  return -sum(where(p > 0, p * logits_, 0), -1);
}

}  // namespace lockstep::distributions
