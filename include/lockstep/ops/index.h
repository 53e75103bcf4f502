// Indexing by int32 or int64 index tensors. An index out of range throws InvalidArgument at once on the CPU, and as an
// error of the stream on a simulated GPU. On a real GPU the kernel traps: the host gets a BackendError when it
// synchronizes, and the process cannot use the card any more. Memory outside of the tensor is never accessed.
// Differentiable with respect to the values; gradients are summed in one order, for any number of threads.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// The slices of x at index[0], index[1], ... along `dim`. index: 1-dim.
LOCKSTEP_API Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);

/// out[i][j] = x[index[i][j]][j] for dim 0, and so on: PyTorch's gather. index has x's rank and is no larger than x in
/// any dimension except `dim`; the result has index's shape. (lockstep::gather of a vector joins outputs of replicas.)
LOCKSTEP_API Tensor gather_elements(const Tensor& x, std::int64_t dim, const Tensor& index);

/// gather_elements() by PyTorch's name.
inline Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) { return gather_elements(x, dim, index); }

/// x, with source[i][j] written to [index[i][j]][j] for dim 0, and so on: PyTorch's scatter. index and source have x's
/// rank. index is no larger than source in any dimension, and no larger than x in any dimension except `dim`. If
/// positions repeat, the last source wins, on every device. Throws DTypeError unless source has x's dtype.
LOCKSTEP_API Tensor scatter_elements(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
LOCKSTEP_API Tensor scatter_elements(const Tensor& x, std::int64_t dim, const Tensor& index, double value);

/// x, with source[i][j] added to [index[i][j]][j] for dim 0, and so on. index and source have x's rank. index is no
/// larger than source in any dimension, and no larger than x in any dimension except `dim`. Throws DTypeError unless
/// source has x's dtype.
LOCKSTEP_API Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);

/// x, with alpha times the slices of source along `dim` added at index[0], index[1], ... along `dim`. index: 1-dim.
/// source has x's sizes, except along `dim`, where it has the index's size. Throws DTypeError unless source has x's
/// dtype.
LOCKSTEP_API Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                              double alpha = 1);

/// x, with the slices of source along `dim` written to index[0], index[1], ... along `dim`. index: 1-dim or 0-dim.
/// source has x's sizes, except along `dim`, where it has the index's size; a 0-dim x counts as one element. If
/// positions repeat, the last source wins. Throws DTypeError unless source has x's dtype.
LOCKSTEP_API Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// x, with `value`, a number or a 0-dim tensor, at the positions in index along `dim`. index: 1-dim or 0-dim; negative
/// indices count from the end. Throws DTypeError for a tensor of another dtype than x's, and for a number that x's
/// dtype cannot hold.
LOCKSTEP_API Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, double value);
LOCKSTEP_API Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& value);

/// Looks up rows of weight [count, ...]: [index's sizes, ...]. The row `padding_idx` (negative: from the end) gets no
/// gradient.
LOCKSTEP_API Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<std::int64_t> padding_idx = {});

/// int64 [index's sizes, classes]: 1 at the class in index, else 0. With classes = -1 there is one more class than the
/// greatest index, and the host waits for the device.
LOCKSTEP_API Tensor one_hot(const Tensor& index, std::int64_t classes = -1);

/// The result of unique().
struct Unique {
  Tensor values;   ///< Sorted; each NaN is a value of its own.
  Tensor inverse;  ///< int64, x's sizes: the position of each element in `values`.
  Tensor counts;   ///< int64: the number of elements with each value.
};
/// The distinct elements of x. Not differentiable. The host waits for the device.
LOCKSTEP_API Unique unique(const Tensor& x);

/// The counts of 0, 1, ..., or the sums of their weights: [max(greatest + 1, min_length)]. x: [n], integers; weights:
/// [n] or undefined. The host waits for the device. Throws InvalidArgument for negative elements.
LOCKSTEP_API Tensor bincount(const Tensor& x, const Tensor& weights = {}, std::int64_t min_length = 0);

/// The indices of the elements that are not zero: int64 [count, x's rank], in row-major order. The host waits for the
/// device.
LOCKSTEP_API Tensor nonzero(const Tensor& x);
/// The elements where the mask is true: [count], in row-major order. x and mask broadcast. The host waits for the
/// device. Throws DTypeError unless the mask is bool.
LOCKSTEP_API Tensor masked_select(const Tensor& x, const Tensor& mask);

}  // namespace lockstep
