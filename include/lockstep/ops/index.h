// Elements picked by int32 or int64 indices that are tensors themselves. An index out of range is InvalidArgument: at
// once on the CPU, as an error of the stream on a simulated GPU. On a real GPU it is a trap: a BackendError where the
// host synchronizes, and the card is lost to the process. Nothing outside the tensor is touched.
// Differentiable with respect to the values; gradients add in one order, whatever the number of threads.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// x at index[0], index[1], ... along `dim`. index: 1-dim.
LOCKSTEP_API Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);

/// out[i][j] = x[index[i][j]][j] for dim 0, and so on: what PyTorch calls gather. index has x's rank, is no larger than
/// x outside `dim`, and gives the shape of the result. (lockstep::gather joins what replicas computed.)
LOCKSTEP_API Tensor gather_elements(const Tensor& x, std::int64_t dim, const Tensor& index);

/// x, with source[i][j] added at [index[i][j]][j] for dim 0, and so on. index and source have x's rank; index is no
/// larger than source anywhere, nor than x outside `dim`. Throws DTypeError unless source has x's dtype.
LOCKSTEP_API Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);

/// The rows of weight [count, ...] that index names: [index's sizes, ...]. The row `padding_index` (negative: from the
/// end) gets no gradient.
LOCKSTEP_API Tensor embedding(const Tensor& weight, const Tensor& index,
                              std::optional<std::int64_t> padding_index = {});

/// int64 [index's sizes, classes]: 1 where the index says, else 0. classes -1: one more than the greatest index, for
/// which the host waits for the device.
LOCKSTEP_API Tensor one_hot(const Tensor& index, std::int64_t classes = -1);

/// The places of the elements that are not zero: int64 [how many, x's rank], in row-major order. The host waits for the
/// device.
LOCKSTEP_API Tensor nonzero(const Tensor& x);
/// The elements where the mask holds: [how many], in row-major order. x and mask broadcast. The host waits for the
/// device. Throws DTypeError unless the mask is bool.
LOCKSTEP_API Tensor masked_select(const Tensor& x, const Tensor& mask);

}  // namespace lockstep
