// Distributions by their parameters, as in torch.distributions. Parameters are floating tensors that broadcast;
// gradients flow into them through log_prob(), entropy() and rsample(), but not through sample(). The `sizes` of a
// sample precede the parameters' own sizes. Random numbers come from the calling thread's sequence
// (lockstep/tensor/random.h). Distributions are values. Throw DTypeError for parameters that are not floating,
// ShapeError if shapes do not broadcast.
#pragma once

#include <optional>

#include <lockstep/tensor/tensor.h>

namespace lockstep::distributions {

/// Normal with mean `loc` and standard deviation `scale`.
class LOCKSTEP_API Normal {
 public:
  Normal(const Tensor& loc, const Tensor& scale);
  Normal(double loc, double scale);

  Tensor sample(const Shape& sizes = {}) const;
  Tensor rsample(const Shape& sizes = {}) const;  ///< loc + scale * noise: differentiable.
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const { return loc_; }
  Tensor stddev() const { return scale_; }

 private:
  Tensor loc_, scale_;  // of one shape
};

/// Uniform in [low, high).
class LOCKSTEP_API Uniform {
 public:
  Uniform(const Tensor& low, const Tensor& high);
  Uniform(double low, double high);

  Tensor sample(const Shape& sizes = {}) const;
  Tensor rsample(const Shape& sizes = {}) const;  ///< low + (high - low) * noise: differentiable.
  Tensor log_prob(const Tensor& value) const;     ///< -infinity outside [low, high).
  Tensor entropy() const;
  Tensor mean() const;

 private:
  Tensor low_, high_;
};

/// The parameter of a discrete distribution. Give exactly one of the two, else constructors throw InvalidArgument.
struct Probabilities {
  std::optional<Tensor> probs = {};
  std::optional<Tensor> logits = {};
};

/// 1 with the probability `probs`, else 0. Logits: log(p / (1 - p)).
class LOCKSTEP_API Bernoulli {
 public:
  explicit Bernoulli(const Probabilities& given);
  explicit Bernoulli(const Tensor& probs) : Bernoulli(Probabilities{.probs = probs}) {}

  Tensor sample(const Shape& sizes = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const { return probs_; }
  Tensor probs() const { return probs_; }
  Tensor logits() const { return logits_; }

 private:
  Tensor probs_, logits_;
};

/// One of n classes: the last dimension of `probs` (which need not sum to 1) or `logits` (log probabilities, up to a
/// constant). Samples and values are int64, without that dimension.
class LOCKSTEP_API Categorical {
 public:
  explicit Categorical(const Probabilities& given);
  explicit Categorical(const Tensor& probs) : Categorical(Probabilities{.probs = probs}) {}

  Tensor sample(const Shape& sizes = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor probs() const;                      ///< Normalized.
  Tensor logits() const { return logits_; }  ///< Normalized: log(probs).

 private:
  Tensor logits_;
};

}  // namespace lockstep::distributions
