// Losses that are negative log-likelihoods: Poisson, Gaussian, CTC. Floating dtypes, else DTypeError. Formulas and
// defaults are PyTorch's. Other losses are in loss.h.
#pragma once

#include <cstdint>

#include <lockstep/ops/loss.h>

namespace lockstep {

struct PoissonNllLossOptions {
  bool log_input = true;  ///< The input is the logarithm of the rate.
  bool full = false;      ///< Adds Stirling's approximation of log(target!), for targets above 1.
  double eps = 1e-8;      ///< Added to a rate before the logarithm.
  Choice<Reduction> reduction = Reduction::mean;
};
/// exp(input) - target input, or input - target log(input + eps). Both tensors have one shape. Differentiable.
LOCKSTEP_API Tensor poisson_nll_loss(const Tensor& input, const Tensor& target,
                                     const PoissonNllLossOptions& options = {});

struct GaussianNllLossOptions {
  bool full = false;  ///< Adds the constant log(2 pi) / 2.
  double eps = 1e-6;  ///< Lower bound of the variance. The gradient ignores the bound.
  Choice<Reduction> reduction = Reduction::mean;
};
/// (log(variance) + (input - target)^2 / variance) / 2. input and target have one shape; variance has that shape, or a
/// last size of 1, or no last dimension. The variance must be positive, which is not checked. Differentiable.
LOCKSTEP_API Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& variance,
                                      const GaussianNllLossOptions& options = {});

struct CtcLossOptions {
  std::int64_t blank = 0;  ///< The class of the blank label.
  /// Reduction::mean first divides each loss by its target's length, or by 1 if the target is empty.
  Choice<Reduction> reduction = Reduction::mean;
  /// If a target is too long for its input, the loss is infinite. True: such losses and their gradients become 0.
  bool zero_infinity = false;
};
/// -log of the probability that the rows of log_probs, drawn independently, spell the target after repeats and then
/// blanks are removed (Graves et al. 2006). log_probs: [time, batch, classes], log-probabilities as from log_softmax;
/// targets: [batch, longest], or all concatenated in one dimension, int32 or int64, without blanks; both lengths:
/// [batch]. Without a batch: [time, classes], [length] and 0-dim lengths. Elements beyond the lengths are not read. The
/// result: [batch] or 0-dim. Throws InvalidArgument for lengths and classes out of range, as cross_entropy() does.
/// Differentiable. The gradient with respect to log_probs is -1 times the expected count of each class. (PyTorch's adds
/// exp(log_probs), which the backward of log_softmax() cancels, so the gradients with respect to the logits agree.)
LOCKSTEP_API Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                             const Tensor& target_lengths, const CtcLossOptions& options = {});

}  // namespace lockstep
