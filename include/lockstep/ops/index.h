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
/// x outside `dim`, and gives the shape of the result. (lockstep::gather of a vector joins what
/// replicas computed.)
LOCKSTEP_API Tensor gather_elements(const Tensor& x, std::int64_t dim, const Tensor& index);

/// The same by PyTorch's name.
inline Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) { return gather_elements(x, dim, index); }

/// x, with source[i][j] put at [index[i][j]][j] for dim 0, and so on: what PyTorch calls scatter. index and source have
/// x's rank; index is no larger than source anywhere, nor than x outside `dim`. Of equal places the last source counts,
/// on every device. Throws DTypeError unless source has x's dtype.
LOCKSTEP_API Tensor scatter_elements(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
LOCKSTEP_API Tensor scatter_elements(const Tensor& x, std::int64_t dim, const Tensor& index, double value);

/// x, with source[i][j] added at [index[i][j]][j] for dim 0, and so on. index and source have x's rank; index is no
/// larger than source anywhere, nor than x outside `dim`. Throws DTypeError unless source has x's dtype.
LOCKSTEP_API Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);

/// x, with alpha times the parts of source along `dim` added at index[0], index[1], ... along `dim`. index: 1-dim;
/// source has x's sizes but for `dim`, where it has the index's. Throws DTypeError unless source has x's dtype.
LOCKSTEP_API Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                              double alpha = 1);

/// x, with the parts of source along `dim` put at index[0], index[1], ... along `dim`. index: 1-dim or 0-dim; source
/// has x's sizes but for `dim`, where it has the index's. A 0-dim x has one place. Of equal places the last one counts.
/// Throws DTypeError unless source has x's dtype.
LOCKSTEP_API Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// x, with `value`, a number or a 0-dim tensor, at the places that index names along `dim`. index: 1-dim or 0-dim;
/// negative ones count from the end. Throws DTypeError for a tensor of another dtype than x's, and for a number that
/// x's dtype cannot hold.
LOCKSTEP_API Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, double value);
LOCKSTEP_API Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& value);

/// The rows of weight [count, ...] that index names: [index's sizes, ...]. The row `padding_idx` (negative: from the
/// end) gets no gradient.
LOCKSTEP_API Tensor embedding(const Tensor& weight, const Tensor& index,
                              std::optional<std::int64_t> padding_idx = {});

/// int64 [index's sizes, classes]: 1 where the index says, else 0. classes -1: one more than the greatest index, for
/// which the host waits for the device.
LOCKSTEP_API Tensor one_hot(const Tensor& index, std::int64_t classes = -1);

/// What unique() gives.
struct Unique {
  Tensor values;   ///< In order; each NaN by itself.
  Tensor inverse;  ///< int64, x's sizes: where in `values` each element is.
  Tensor counts;   ///< int64: how often each value occurs.
};
/// The different elements of x. Not differentiable. The host waits for the device.
LOCKSTEP_API Unique unique(const Tensor& x);

/// How often each of 0, 1, ... occurs, or the sum of its weights: [max(greatest + 1, min_length)]. x: [n], integers;
/// weights: [n] or undefined. The host waits for the device. Throws InvalidArgument for negative ones.
LOCKSTEP_API Tensor bincount(const Tensor& x, const Tensor& weights = {}, std::int64_t min_length = 0);

/// The places of the elements that are not zero: int64 [how many, x's rank], in row-major order. The host waits for the
/// device.
LOCKSTEP_API Tensor nonzero(const Tensor& x);
/// The elements where the mask holds: [how many], in row-major order. x and mask broadcast. The host waits for the
/// device. Throws DTypeError unless the mask is bool.
LOCKSTEP_API Tensor masked_select(const Tensor& x, const Tensor& mask);

}  // namespace lockstep
