// Attention for a block of queries at a time, made of products and elementwise kernels: for devices that decline it as
// one operation. Only the scores of one block are there at a time, so memory grows linearly with the length.
#pragma once

#include <cstdint>

#include "ops/attention/composed.h"

namespace lockstep {

/// How many queries are a block where there are so many keys.
std::int64_t attention_block_rows(std::int64_t keys);

/// Fills y [N, H, L, F] and logsumexp [N, H, L]: of each query's scores, or infinity where a query sees nothing (y is 0
/// there). Of float32 or float64, without empty inputs; the mask is not broadcast, but [N, H, L, S]. Records nothing.
void attention_by_blocks(const AttentionInputs& inputs, std::int64_t rows, const Tensor& y, const Tensor& logsumexp);

/// The gradients, from that of y; what the forward has filled is given again. Weights are computed again, and sums over
/// blocks add in the order of the blocks. Records nothing.
AttentionGradients attention_gradients_by_blocks(const Tensor& g, const AttentionInputs& inputs, std::int64_t rows,
                                                 const Tensor& y, const Tensor& logsumexp);

}  // namespace lockstep
