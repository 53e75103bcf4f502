// Attention for one block of queries at a time, made of products and elementwise kernels: for devices whose
// Backend::fused declines it. 16-bit inputs are multiplied as they are; scores are float32, weights 16-bit. Only the
// scores of one block are in memory, so memory grows linearly with the sequence length.
#pragma once

#include <cstdint>

#include "ops/attention/composed.h"

namespace lockstep {

/// The number of queries in a block, given the number of keys.
std::int64_t attention_block_rows(std::int64_t keys);

/// Fills y [N, H, L, F] and logsumexp [N, H, L] of each query's scores; for a query that sees no key y is 0 and
/// logsumexp, in the wide dtype, is infinity. No empty inputs; the mask is expanded to [N, H, L, S]. Not recorded.
void attention_by_blocks(const AttentionInputs& inputs, std::int64_t rows, const Tensor& y, const Tensor& logsumexp);

/// The gradients, from the gradient g of y; y and logsumexp are those of the forward. Recomputes the weights. Sums over
/// blocks add in the order of the blocks. Not recorded.
AttentionGradients attention_gradients_by_blocks(const Tensor& g, const AttentionInputs& inputs, std::int64_t rows,
                                                 const Tensor& y, const Tensor& logsumexp);

}  // namespace lockstep
