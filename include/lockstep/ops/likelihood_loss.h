// Losses that are negative logarithms of a likelihood: Poisson, Gaussian, CTC. Floating dtypes, else DTypeError.
// Formulas and defaults are PyTorch's. Others are in loss.h.
#pragma once

#include <cstdint>

#include <lockstep/ops/loss.h>

namespace lockstep {

struct PoissonNllLossOptions {
  bool log_input = true;  ///< The input is the logarithm of the rate.
  bool full = false;      ///< With Stirling's approximation of log(target!), for targets above 1.
  double eps = 1e-8;      ///< Added to a rate before its logarithm is taken.
  Choice<Reduction> reduction = Reduction::mean;
};
/// exp(input) - target input, or input - target log(input + eps). Both of one shape. Differentiable.
LOCKSTEP_API Tensor poisson_nll_loss(const Tensor& input, const Tensor& target,
                                     const PoissonNllLossOptions& options = {});

struct GaussianNllLossOptions {
  bool full = false;  ///< With the constant log(2 pi) / 2.
  double eps = 1e-6;  ///< The least variance. The gradient passes by it.
  Choice<Reduction> reduction = Reduction::mean;
};
/// (log(variance) + (input - target)^2 / variance) / 2. input and target: of one shape; variance: that shape, or with
/// a last size of 1, or without the last size. It is not checked to be positive. Differentiable.
LOCKSTEP_API Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& variance,
                                      const GaussianNllLossOptions& options = {});

struct CtcLossOptions {
  std::int64_t blank = 0;                 ///< The class that stands for no label.
  Choice<Reduction> reduction = Reduction::mean;  ///< The mean divides a loss by its target's length (at least 1) first.
  bool zero_infinity = false;  ///< Infinite losses, of targets that do not fit their input, count 0 and have no slope.
};
/// -log of the probability that the rows of log_probs, drawn independently, spell the target when repeats and then
/// blanks are taken out (Graves et al. 2006). log_probs: [time, batch, classes] of log-probabilities, as log_softmax
/// gives them; targets: [batch, longest], or all one after the other in one dimension, of int32 or int64, none of them
/// blank; both lengths: [batch]. Or [time, classes], [length] and 0-dim. What lies beyond the lengths is not looked at.
/// The result: [batch] or 0-dim. InvalidArgument for lengths and classes out of range, as cross_entropy() says.
/// Differentiable. The gradient is that of log_probs as they are, -1 times the expected uses of a class (PyTorch's adds
/// exp(log_probs), which log_softmax() takes out again: before it, both are the same).
LOCKSTEP_API Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                             const Tensor& target_lengths, const CtcLossOptions& options = {});

}  // namespace lockstep
