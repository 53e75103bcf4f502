#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Zero with probability p, else x / (1 - p); x itself if not training or for p = 0 (Srivastava et al., JMLR 2014).
/// Floating dtypes only, else DTypeError; throws InvalidArgument unless 0 <= p <= 1. Differentiable, to any order.
///
/// What is dropped depends on the caller's sequence of random numbers and on an element's place in the whole batch: it
/// is the same whatever the number of devices (lockstep/tensor/batch_shard.h says which tensors count as batches).
/// Nothing is kept for backward but where the sequence stood.
LOCKSTEP_API Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);

/// Whole channels of x are dropped: x is [batch, channels, ...], of which every [i, j] is zero with probability p, else
/// x / (1 - p). As dropout() otherwise, with the batch in dimension 0. (PyTorch's dropout1d, dropout2d and dropout3d.)
/// Throws ShapeError for fewer than two dimensions.
LOCKSTEP_API Tensor channel_dropout(const Tensor& x, double p = 0.5, bool training = true);

/// Drops elements to the negative bound of selu, then scales and shifts so that mean 0 and variance 1 stay (Klambauer
/// et al. 2017); feature_alpha_dropout drops whole channels. As dropout() and channel_dropout() otherwise.
LOCKSTEP_API Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);
LOCKSTEP_API Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace lockstep
