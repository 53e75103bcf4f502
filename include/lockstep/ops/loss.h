// Losses. Floating dtypes, else DTypeError; input and target of one shape where nothing else is said, else ShapeError:
// nothing broadcasts by accident. Differentiable, to any order, in input and target. Formulas and defaults are
// PyTorch's.
#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/core/choice.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// What becomes of the losses of the elements (for losses over classes: of the rows).
enum class Reduction {
  mean,      ///< Their mean, 0-dim.
  sum,       ///< Their sum, 0-dim.
  none,      ///< They are the result.
  batchmean  ///< Their sum over the first size, 0-dim: for kl_div, whose mean over elements is no divergence.
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
  double beta = 1;  ///< Where the square ends; 0 gives l1_loss. Negative: InvalidArgument.
};
/// |d| < beta ? d^2 / (2 beta) : |d| - beta / 2, for d = input - target.
LOCKSTEP_API Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossOptions& options = {});

struct HuberLossOptions {
  Choice<Reduction> reduction = Reduction::mean;
  double delta = 1;  ///< Where the square ends; 0 and below: InvalidArgument.
};
/// |d| <= delta ? d^2 / 2 : delta (|d| - delta / 2), for d = input - target.
LOCKSTEP_API Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options = {});

struct BinaryCrossEntropyOptions {
  Tensor weight = {};  ///< Of the elements: broadcasts to the input.
  Choice<Reduction> reduction = Reduction::mean;
  Tensor pos_weight = {};  ///< Of the target 1 against 0, with logits only: broadcasts to the input.
};
/// -(target log(input) + (1 - target) log(1 - input)); logarithms end at -100. Both in [0, 1], else InvalidArgument: at
/// once on the CPU, later on a GPU, as cross_entropy() says.
LOCKSTEP_API Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                         const BinaryCrossEntropyOptions& options = {});
/// The same of sigmoid(input), exact for inputs of any size.
LOCKSTEP_API Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                                     const BinaryCrossEntropyOptions& options = {});

struct KlDivOptions {
  Choice<Reduction> reduction = Reduction::mean;
  bool log_target = false;  ///< The target holds logarithms too.
};
/// target (log(target) - input): the divergence of the target from an input of log-probabilities.
LOCKSTEP_API Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options = {});

struct CrossEntropyOptions {
  Tensor weight = {};                ///< Of the classes: [classes], of the input's dtype.
  std::int64_t ignore_index = -100;  ///< Targets of this class count nothing.
  Choice<Reduction> reduction = Reduction::mean;
  double label_smoothing = 0;  ///< This part of each target is spread evenly over the classes. In [0, 1].
};
/// -log(softmax(input)[target]). input: [rows, classes, ...] or [classes]. target: its shape without the classes, of
/// int32 or int64; or probabilities, of the input's shape and dtype. The mean over targets that count is weighted by
/// their class's weight. Deterministic. A class out of range is InvalidArgument: at once on the CPU, as an error of the
/// stream on a simulated GPU. On a real GPU it is a trap: a BackendError where the host synchronizes, after which the
/// card is lost to the process.
LOCKSTEP_API Tensor cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyOptions& options = {});

struct NllLossOptions {
  Tensor weight = {};
  std::int64_t ignore_index = -100;  ///< Rows with this target do not count.
  Choice<Reduction> reduction = Reduction::mean;
};
/// The same with an input of log-probabilities, -input[target].
LOCKSTEP_API Tensor nll_loss(const Tensor& input, const Tensor& target, const NllLossOptions& options = {});

}  // namespace lockstep
