// Loss: the result of a Trainer's loss function; and the combination of the losses of a step's batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include <lockstep/ops/weighted_mean.h>

namespace lockstep::train {

/// A tensor of one element, the mean over the batch's rows; or a WeightedMean with its own weight, for example when
/// padding is ignored.
using Loss = std::variant<Tensor, WeightedMean>;

namespace detail {

/// Computes the tensor on which backward() is called for each batch of a step, so that the accumulated gradients are
/// the gradients of the mean over the whole step. Losses that are tensors are weighted by rows, which are known in
/// advance. The weights of WeightedMeans are known only after the step's last batch, when the gradients get a
/// correction factor.
class LOCKSTEP_API StepMean {
 public:
  /// `rows`: the rows of each batch of the step, over all processes.
  explicit StepMean(std::vector<std::int64_t> rows);

  /// Returns the next batch's loss times its weight in the step. A WeightedMean must already be the mean over all
  /// processes. Throws InvalidArgument if the batches of a step mix tensors and WeightedMeans.
  Tensor weighted_loss(const Loss& loss);
  /// The factor for the accumulated gradients; an undefined Tensor if they need no correction.
  Tensor correction() const;

 private:
  Tensor weighted_loss(const WeightedMean& loss, double rows);

  std::vector<std::int64_t> rows_;
  double all_rows_;
  std::size_t next_ = 0;
  // the weight of the whole step, estimated from the first batch, float64; an undefined Tensor if losses are tensors
  Tensor expected_;
  Tensor weight_;  // sum over the batches so far
};

}  // namespace detail
}  // namespace lockstep::train
