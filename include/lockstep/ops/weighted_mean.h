// WeightedMean: a mean with its weight, so that the means of parts of a batch can be joined to the mean of the whole
// batch. gather() joins the means of devices, DataParallel the means of processes, a Trainer the means of a step's
// micro-batches.
//
//   struct Tagger : nn::Module<Tagger> {
//     WeightedMean forward(const Tensor& words, const Tensor& tags) {   // the mean over the tags that are not padding
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

/// A part of a sum: gather() adds the parts of the replicas, whatever GatherOptions::how says.
class Addend : public Tensor {
 public:
  Addend() = default;
  explicit Addend(Tensor part) : Tensor(std::move(part)) {}  ///< Shares the storage of `part`.

  /// For the library; set only if WeightedMean::weight is the sum over all processes. The sum and the weight of the
  /// mean, multiplied by these factors, are then this process's parts of both.
  struct LocalFactors {
    double sum, weight;
  };
  std::optional<LocalFactors> local_factors = {};  ///< See LocalFactors.
};

/// sum / weight. A plain value: a module may return it, alone or in a structure, and so may the loss function of a
/// Trainer.
struct LOCKSTEP_API WeightedMean {
  WeightedMean() = default;
  /// Each tensor has one element, both on one device. Both become 0-dim; a sum of 16-bit floats or integers becomes
  /// float32, the weight a float64 without a gradient. Throws ShapeError, DeviceMismatch.
  WeightedMean(const Tensor& total, const Tensor& counted) : WeightedMean(total, Addend(counted)) {}
  WeightedMean(const Tensor& total, const Addend& counted);  ///< Takes the weight of another mean.
  WeightedMean(const Tensor& total, double counted);         ///< Takes a weight that the host knows.

  Addend sum;     ///< The sum of the values, each times its weight.
  Addend weight;  ///< The sum of the weights, for example the number of elements that count.

  /// sum / weight, 0-dim, differentiable. NaN if the weight is 0.
  Tensor value() const;

  auto members() { return lockstep::members("sum", sum, "weight", weight); }
};

/// cross_entropy() with the weight of its mean: the number of targets that are not ignore_index, each times the weight
/// of its class; targets that are probabilities count 1 each. Options, shapes and errors are those of cross_entropy();
/// the reduction is ignored.
LOCKSTEP_API WeightedMean mean_cross_entropy(const Tensor& input, const Tensor& target,
                                             const CrossEntropyOptions& options = {});
/// nll_loss() with the weight of its mean.
LOCKSTEP_API WeightedMean mean_nll_loss(const Tensor& input, const Tensor& target, const NllLossOptions& options = {});

}  // namespace lockstep
