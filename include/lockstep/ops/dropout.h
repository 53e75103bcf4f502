#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Zero with probability p, else x / (1 - p); x itself if not training or if p = 0 (Srivastava et al., JMLR 2014).
/// Floating dtypes only, else DTypeError; throws InvalidArgument unless 0 <= p <= 1. Differentiable to any order.
///
/// The mask depends on the caller's sequence of random numbers and on each element's place in the whole batch, so it is
/// the same for any number of devices (lockstep/tensor/batch_shard.h says which tensors count as batches). Backward
/// draws the mask again: only the position in the sequence is saved.
LOCKSTEP_API Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);

/// Drops whole channels of x [batch, channels, ...]: every [i, j] is zero with probability p, else x / (1 - p). In all
/// else like dropout(), with the batch in dimension 0. (PyTorch's dropout1d, dropout2d and dropout3d.) Throws
/// ShapeError for fewer than two dimensions.
LOCKSTEP_API Tensor channel_dropout(const Tensor& x, double p = 0.5, bool training = true);

/// Sets dropped elements to selu's negative bound, then scales and shifts so that mean 0 and variance 1 are preserved
/// (Klambauer et al. 2017); feature_alpha_dropout drops whole channels. They are otherwise like dropout() and
/// channel_dropout().
LOCKSTEP_API Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);
LOCKSTEP_API Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace lockstep
