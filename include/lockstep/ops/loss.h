// Losses. Floating dtypes, else DTypeError. Input and target have one shape unless a function says otherwise, else
// ShapeError: nothing broadcasts by accident. Differentiable to any order in input and target. Formulas and defaults
// are PyTorch's.
#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/core/choice.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// How the losses of the elements (of the rows, for losses over classes) are combined.
enum class Reduction {
  mean,      ///< Their mean, 0-dim.
  sum,       ///< Their sum, 0-dim.
  none,      ///< No reduction: the losses themselves.
  batchmean  ///< Their sum / input.size(0), 0-dim: for kl_div, whose mean over elements is not a divergence.
};

}  // namespace lockstep

template <>
struct lockstep::ChoiceNames<lockstep::Reduction> {
  static constexpr const char* kOption = "reduction";
  static constexpr std::string_view kNames[] = {"mean", "sum", "none", "batchmean"};
};

namespace lockstep {

struct LossOptions {
  Choice<Reduction> reduction = Reduction::mean;
};
/// (input - target)^2
LOCKSTEP_API Tensor mse_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
/// abs(input - target)
LOCKSTEP_API Tensor l1_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});

/// Options of smooth_l1_loss().
struct SmoothL1LossOptions {
  Choice<Reduction> reduction = Reduction::mean;
  double beta = 1;  ///< The |d| where the quadratic part ends; 0 gives l1_loss, a negative beta InvalidArgument.
};
/// |d| < beta ? d^2 / (2 beta) : |d| - beta / 2, for d = input - target.
LOCKSTEP_API Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossOptions& options = {});

struct HuberLossOptions {
  Choice<Reduction> reduction = Reduction::mean;
  double delta = 1;  ///< The |d| where the quadratic part ends; 0 and below give InvalidArgument.
};
/// |d| <= delta ? d^2 / 2 : delta (|d| - delta / 2), for d = input - target.
LOCKSTEP_API Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options = {});

struct BinaryCrossEntropyOptions {
  Tensor weight = {};  ///< Weights of the elements: broadcasts to the input.
  Choice<Reduction> reduction = Reduction::mean;
  Tensor pos_weight = {};  ///< With logits only: the factor of the term for target 1. Broadcasts to the input.
};
/// -(target log(input) + (1 - target) log(1 - input)); logarithms are clamped to -100. Input and target are in [0, 1],
/// else InvalidArgument: at once on the CPU, later on a GPU, as in cross_entropy().
LOCKSTEP_API Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                         const BinaryCrossEntropyOptions& options = {});
/// binary_cross_entropy(sigmoid(input), target), accurate for inputs of any size.
LOCKSTEP_API Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                                     const BinaryCrossEntropyOptions& options = {});

struct KlDivOptions {
  Choice<Reduction> reduction = Reduction::mean;
  bool log_target = false;  ///< The target holds logarithms.
};
/// target (log(target) - input): the divergence of the target from the input, which holds log-probabilities.
LOCKSTEP_API Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options = {});

struct CrossEntropyOptions {
  Tensor weight = {};                ///< Weights of the classes: [classes], of the input's dtype.
  std::int64_t ignore_index = -100;  ///< Rows with this target do not count.
  Choice<Reduction> reduction = Reduction::mean;
  double label_smoothing = 0;  ///< The part of each target that is spread evenly over the classes. In [0, 1].
};
/// -log(softmax(input)[target]). input: [rows, classes, ...] or [classes]. target: that shape without the classes,
/// int32 or int64; or probabilities, of the input's shape and dtype. The mean is over the targets that are not ignored,
/// weighted by the weights of their classes. Deterministic. Backward writes the gradient over the input if nobody can
/// read that any more (docs/training.md, "The logits' memory"). A class out of range throws InvalidArgument at once on
/// the CPU, and as an error of the stream on a simulated GPU. On a real GPU the kernel traps: the host gets a
/// BackendError when it synchronizes, and the process cannot use the card any more.
LOCKSTEP_API Tensor cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyOptions& options = {});

struct NllLossOptions {
  Tensor weight = {};
  std::int64_t ignore_index = -100;  ///< Rows with this target do not count.
  Choice<Reduction> reduction = Reduction::mean;
};
/// cross_entropy() of log-probabilities: -input[target].
LOCKSTEP_API Tensor nll_loss(const Tensor& input, const Tensor& target, const NllLossOptions& options = {});

}  // namespace lockstep
