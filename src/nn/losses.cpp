#include <lockstep/nn/losses.h>

namespace lockstep::nn {

BCEWithLogitsLoss::BCEWithLogitsLoss(const BinaryCrossEntropyOptions& options) : reduction_(options.reduction) {
  if (options.weight.defined()) weight.emplace(options.weight);
  if (options.pos_weight.defined()) pos_weight.emplace(options.pos_weight);
}

Tensor BCEWithLogitsLoss::forward(const Tensor& input, const Tensor& target) const {
  return binary_cross_entropy_with_logits(input, target,
                                          {.weight = weight ? Tensor(*weight) : Tensor(),
                                           .reduction = reduction_,
                                           .pos_weight = pos_weight ? Tensor(*pos_weight) : Tensor()});
}

}  // namespace lockstep::nn
