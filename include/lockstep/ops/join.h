// Joins and splits tensors. Differentiable. Throw InvalidArgument for no tensors, and ShapeError, DTypeError or
// DeviceMismatch naming the tensor that does not fit the first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Joins along an existing dimension; the other sizes must agree.
LOCKSTEP_API Tensor cat(std::span<const Tensor> tensors, std::int64_t dim = 0);
/// Joins along a new dimension; all sizes must agree.
LOCKSTEP_API Tensor stack(std::span<const Tensor> tensors, std::int64_t dim = 0);
/// At most `chunks` views of ceil(size / chunks) elements each along `dim`, the last one smaller: 10 in 3 gives 4, 4,
/// 2. A size of 0 gives `chunks` empty views.
LOCKSTEP_API std::vector<Tensor> chunk(const Tensor& tensor, std::int64_t chunks, std::int64_t dim = 0);
/// Views of these sizes along `dim`. Throws ShapeError unless the sizes add up to the size of `dim`.
LOCKSTEP_API std::vector<Tensor> split(const Tensor& tensor, const std::vector<std::int64_t>& sizes,
                                       std::int64_t dim = 0);
/// A view of each index along `dim`, without that dimension.
LOCKSTEP_API std::vector<Tensor> unbind(const Tensor& tensor, std::int64_t dim = 0);

/// Views of `size` elements each along `dim`, the last one smaller.
LOCKSTEP_API std::vector<Tensor> split(const Tensor& tensor, std::int64_t size, std::int64_t dim = 0);

/// Exactly `sections` views along `dim`. If the size is not a multiple of `sections`, the first views have one element
/// more: 7 in 3 gives 3, 2, 2. Throws InvalidArgument for less than one section.
LOCKSTEP_API std::vector<Tensor> tensor_split(const Tensor& tensor, std::int64_t sections, std::int64_t dim = 0);
/// Views that are cut at `indices`, which mean positions as in slice(): {2, 5} gives [:2], [2:5] and [5:].
LOCKSTEP_API std::vector<Tensor> tensor_split(const Tensor& tensor, const std::vector<std::int64_t>& indices,
                                              std::int64_t dim = 0);

/// cat() of a list.
inline Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t dim = 0) {
  return cat(std::span(tensors.begin(), tensors.size()), dim);
}
/// cat() by its other name in PyTorch.
inline Tensor concat(std::span<const Tensor> tensors, std::int64_t dim = 0) { return cat(tensors, dim); }
inline Tensor concat(std::initializer_list<Tensor> tensors, std::int64_t dim = 0) { return cat(tensors, dim); }
/// Joins rows along dimension 0. A vector counts as a row, a 0-dim tensor as a row of one element.
LOCKSTEP_API Tensor vstack(std::span<const Tensor> tensors);
inline Tensor vstack(std::initializer_list<Tensor> tensors) {
  return vstack(std::span(tensors.begin(), tensors.size()));
}
/// Joins along dimension 1, or vectors along dimension 0. A 0-dim tensor counts as a vector of one element.
LOCKSTEP_API Tensor hstack(std::span<const Tensor> tensors);
inline Tensor hstack(std::initializer_list<Tensor> tensors) {
  return hstack(std::span(tensors.begin(), tensors.size()));
}

/// stack() of a list.
inline Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t dim = 0) {
  return stack(std::span(tensors.begin(), tensors.size()), dim);
}

}  // namespace lockstep
