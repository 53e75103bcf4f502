#include <lockstep/train/loss.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>

namespace lockstep::train::detail {

StepMean::StepMean(std::vector<std::int64_t> rows)
    : rows_(std::move(rows)), all_rows_(double(std::reduce(rows_.begin(), rows_.end()))) {}

Tensor StepMean::weighted_loss(const Loss& loss) {
  const double rows = double(rows_[next_]);
  const Tensor* const mean = std::get_if<Tensor>(&loss);
  if (next_++ > 0 && (mean != nullptr) == expected_.defined())
    throw InvalidArgument(
        "[trainer] expected the losses of a step's batches to be all tensors or all a WeightedMean, got both");
  if (!mean) return weighted_loss(std::get<WeightedMean>(loss), rows);
  return rows_.size() == 1 ? *mean : *mean * (rows / all_rows_);
}

// The sum is divided by the expected weight of the step, not only at its end by the true weight: so gradients are about
// as large as those of the mean from the first batch on, and stay in the range of 16-bit floats. If the weight is 0,
// the sum and its gradient are 0.
Tensor StepMean::weighted_loss(const WeightedMean& loss, double rows) {
  {
    const NoGrad guard;
    if (!expected_.defined())
      expected_ = where(gt(loss.weight, 0), loss.weight * (rows > 0 ? all_rows_ / rows : 1), std::max(all_rows_, 1.0));
    weight_ = weight_.defined() ? weight_ + loss.weight : Tensor(loss.weight);
  }
  return loss.sum / expected_.to(loss.sum.dtype());
}

Tensor StepMean::correction() const {
  if (!expected_.defined() || rows_.size() == 1) return {};
  const NoGrad guard;
  return expected_ / where(gt(weight_, 0), weight_, expected_);
}

}  // namespace lockstep::train::detail
