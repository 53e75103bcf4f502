// Attention made of other ops: for dropout, for a mask that needs a gradient, for double backward, and as the reference
// for tests of the fused operation.
#pragma once

#include <optional>

#include <lockstep/tensor/tensor.h>

#include "ops/dropout_mask.h"

namespace lockstep {

/// query [N, H, L, E], key [N, G, S, E], value [N, G, S, F]; mask: additive, expanded to [N, H, L, S], or undefined.
struct AttentionInputs {
  Tensor query, key, value, mask;
  double scale = 1;
  bool causal = false;
};

/// An uninitialized [N, H, L, F] on the device of `like`, with the memory order [N, L, H, F], so that joining the heads
/// needs no copy.
Tensor by_position(const Tensor& like, const Shape& sizes);

/// The result: [N, H, L, F]. Differentiable to any order, in the mask too. `scores`: the caller's sizes of [N, H, L,
/// S], in which dropout() finds the batch dimension.
Tensor composed_attention(const AttentionInputs& inputs, double dropout, const Shape& scores);

struct AttentionGradients {
  Tensor query, key, value;
};
/// The gradients, from the gradient g of the result; differentiable. `dropout`: the mask of the forward's weights.
AttentionGradients composed_attention_gradients(const Tensor& g, const AttentionInputs& inputs,
                                                const std::optional<DropoutDraw>& dropout);

}  // namespace lockstep
