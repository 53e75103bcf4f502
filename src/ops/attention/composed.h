// Attention made of other ops: what drops weights, gives a mask its gradient and gives gradients of gradients, and what
// the fused operation is compared with.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// query [N, H, L, E], key [N, G, S, E], value [N, G, S, F], mask, added, broadcast to [N, H, L, S], or undefined.
struct AttentionInputs {
  Tensor query, key, value, mask;
  double scale = 1;
  bool causal = false;
};

/// An uninitialized [N, H, L, F] on the device of `like`, whose memory is [N, L, H, F]: heads that are joined next need
/// no copy.
Tensor by_position(const Tensor& like, const Shape& sizes);

/// [N, H, L, F]. Differentiable to any order, in the mask too. `scores`: the sizes that the caller sees of [N, H, L,
/// S], which say what dropout() counts as the batch.
Tensor composed_attention(const AttentionInputs& inputs, double dropout, const Shape& scores);

struct AttentionGradients {
  Tensor query, key, value;
};
/// The gradients, from that of the result; differentiable themselves.
AttentionGradients composed_attention_gradients(const Tensor& g, const AttentionInputs& inputs);

}  // namespace lockstep
