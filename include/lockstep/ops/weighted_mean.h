// WeightedMean: a mean that says what it is a mean of, so that the means of parts of a batch are joined to that of the
// whole: the parts of devices by gather(), of processes by DataParallel, of a step's batches by a Trainer.
//
//   struct Tagger : nn::Module<Tagger> {
//     WeightedMean forward(const Tensor& words, const Tensor& tags) {   // the mean over the tags that are no padding
//       return nn::mean_cross_entropy(net(words), tags, {.ignore_index = 0});
//     }
//   };
#pragma once

#include <optional>
#include <utility>

#include <lockstep/core/members.h>
#include <lockstep/ops/loss.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// A tensor that is a part of a sum: gather() adds the parts of replicas, whatever GatherOptions::how is.
class Addend : public Tensor {
 public:
  Addend() = default;
  explicit Addend(Tensor part) : Tensor(std::move(part)) {}  ///< Shares its elements.

  /// For the library. Of a weight that is of all processes: the factors that make the sum that belongs to it, and the
  /// weight, this process's parts again.
  struct Share {
    double of_sum, of_weight;
  };
  std::optional<Share> share = {};  ///< See Share.
};

/// sum / weight. A plain value: a module may return it, alone or in a structure, and so may the loss function of a
/// Trainer.
struct LOCKSTEP_API WeightedMean {
  WeightedMean() = default;
  /// One element each, on one device. 16-bit sums and integers become float32, the weight a float64 without a gradient;
  /// both become 0-dim. Throws ShapeError, DeviceMismatch.
  WeightedMean(const Tensor& total, const Tensor& counted) : WeightedMean(total, Addend(counted)) {}
  WeightedMean(const Tensor& total, const Addend& counted);  ///< The same with the weight of another mean.
  WeightedMean(const Tensor& total, double counted);         ///< The same with a weight that the host knows.

  Addend sum;     ///< Of the values, each times its weight.
  Addend weight;  ///< The sum of the weights: how many elements count, say.

  /// sum / weight, 0-dim, differentiable. NaN where the weight is 0.
  Tensor value() const;

  auto members() { return lockstep::members("sum", sum, "weight", weight); }
};

/// cross_entropy() with what its mean is weighted by: the targets that are not ignore_index, each by its class's
/// weight; targets that are probabilities count 1 each. Options, shapes and errors are those of cross_entropy(), but
/// for the reduction, which is not looked at.
LOCKSTEP_API WeightedMean mean_cross_entropy(const Tensor& input, const Tensor& target,
                                             const CrossEntropyOptions& options = {});
/// The same of nll_loss().
LOCKSTEP_API WeightedMean mean_nll_loss(const Tensor& input, const Tensor& target, const NllLossOptions& options = {});

}  // namespace lockstep
