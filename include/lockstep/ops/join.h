// Several tensors into one, and back. Differentiable. Throw InvalidArgument for no tensors, ShapeError, DTypeError or
// DeviceMismatch naming the tensor that does not fit the first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Along an existing dimension; the other sizes agree.
LOCKSTEP_API Tensor cat(std::span<const Tensor> tensors, std::int64_t dim = 0);
/// Along a new dimension; all sizes agree.
LOCKSTEP_API Tensor stack(std::span<const Tensor> tensors, std::int64_t dim = 0);
/// At most `chunks` views of ceil(size / chunks) each along `dim`, the last one smaller: 10 in 3 gives 4, 4, 2.
/// Of no elements: `chunks` of none.
LOCKSTEP_API std::vector<Tensor> chunk(const Tensor& tensor, std::int64_t chunks, std::int64_t dim = 0);
/// Views of these sizes along `dim`, which add up to its size, else ShapeError.
LOCKSTEP_API std::vector<Tensor> split(const Tensor& tensor, const std::vector<std::int64_t>& sizes,
                                       std::int64_t dim = 0);
/// Views of each place along `dim`, without that dimension.
LOCKSTEP_API std::vector<Tensor> unbind(const Tensor& tensor, std::int64_t dim = 0);

/// Views of `size` places each along `dim`, the last one smaller.
LOCKSTEP_API std::vector<Tensor> split(const Tensor& tensor, std::int64_t size, std::int64_t dim = 0);

/// Exactly `sections` views along `dim`, the first ones longer by one where the size is no multiple: 7 in 3 gives 3, 2,
/// 2. Throws InvalidArgument for less than one.
LOCKSTEP_API std::vector<Tensor> tensor_split(const Tensor& tensor, std::int64_t sections, std::int64_t dim = 0);
/// Views of what lies before indices[0], from there to indices[1], and so on to the end, as slice() takes them: {2, 5}
/// gives [:2], [2:5] and [5:].
LOCKSTEP_API std::vector<Tensor> tensor_split(const Tensor& tensor, const std::vector<std::int64_t>& indices,
                                              std::int64_t dim = 0);

/// The same for a list.
inline Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t dim = 0) {
  return cat(std::span(tensors.begin(), tensors.size()), dim);
}
/// cat by its longer name.
inline Tensor concat(std::span<const Tensor> tensors, std::int64_t dim = 0) { return cat(tensors, dim); }
inline Tensor concat(std::initializer_list<Tensor> tensors, std::int64_t dim = 0) { return cat(tensors, dim); }
/// One below the other: along dimension 0. A vector is a row, a 0-dim tensor a row of one.
LOCKSTEP_API Tensor vstack(std::span<const Tensor> tensors);
inline Tensor vstack(std::initializer_list<Tensor> tensors) {
  return vstack(std::span(tensors.begin(), tensors.size()));
}
/// Beside each other: along dimension 1, but vectors along dimension 0. A 0-dim tensor is a vector of one.
LOCKSTEP_API Tensor hstack(std::span<const Tensor> tensors);
inline Tensor hstack(std::initializer_list<Tensor> tensors) {
  return hstack(std::span(tensors.begin(), tensors.size()));
}

/// The same for a list.
inline Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t dim = 0) {
  return stack(std::span(tensors.begin(), tensors.size()), dim);
}

}  // namespace lockstep
