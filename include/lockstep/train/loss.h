// What a loss function of a Trainer returns, and how the losses of a step's batches become one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include <lockstep/ops/weighted_mean.h>

namespace lockstep::train {

/// A mean over the batch's rows, one element; or one that says what it is weighted by, as where padding is ignored.
using Loss = std::variant<Tensor, WeightedMean>;

namespace detail {

/// What backward starts from in each batch of a step, so that the gradients become those of the mean over all of the
/// step: losses that are tensors are weighted by rows, which are known before; the weights of others are known when all
/// batches have been through the model, and gradients are corrected then.
class LOCKSTEP_API StepMean {
 public:
  /// Of each batch, over all processes.
  explicit StepMean(std::vector<std::int64_t> rows);

  /// Of the next batch's loss, which a WeightedMean is over all processes. Throws InvalidArgument for one of the other
  /// kind than that of the batch before.
  Tensor root(const Loss& loss);
  /// What the gradients of all roots are to be multiplied by; undefined for nothing.
  Tensor correction() const;

 private:
  Tensor root_of(const WeightedMean& loss, double rows);

  std::vector<std::int64_t> rows_;
  double all_rows_;
  std::size_t next_ = 0;
  Tensor expected_;  // the weight of the whole step, by that of the first batch, float64; undefined for tensors
  Tensor weight_;    // of the batches so far
};

}  // namespace detail
}  // namespace lockstep::train
