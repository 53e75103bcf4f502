#include <lockstep/nn/losses.h>

#include "nn/layer_parameters.h"

namespace lockstep::nn {

BCEWithLogitsLoss::BCEWithLogitsLoss(const BinaryCrossEntropyOptions& options) : reduction_(options.reduction) {
  if (options.weight.defined()) weight.emplace(options.weight);
  if (options.pos_weight.defined()) pos_weight.emplace(options.pos_weight);
}

Tensor BCEWithLogitsLoss::forward(const Tensor& input, const Tensor& target) const {
  return binary_cross_entropy_with_logits(
      input, target,
      {.weight = tensor_or_none(weight), .reduction = reduction_, .pos_weight = tensor_or_none(pos_weight)});
}

}  // namespace lockstep::nn
