// Copies with elements rearranged: mirrored, shifted, padded, cut to a triangle, repeated. Any dtype. Differentiable.
// Throw ShapeError for dimensions that are out of range or repeated.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <lockstep/core/choice.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Reverses the order along each of `dims`.
LOCKSTEP_API Tensor flip(const Tensor& x, const Shape& dims);
/// Rotates k times by 90 degrees in the plane of the two `dims`, from the first towards the second. Throws
/// InvalidArgument unless `dims` has two dimensions.
LOCKSTEP_API Tensor rot90(const Tensor& x, std::int64_t k = 1, const Shape& dims = {0, 1});
/// Shifts by shifts[i] towards higher indices along dims[i]; elements past the end reappear at the start.
LOCKSTEP_API Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims);
/// The values of the padding.
enum class PadMode : std::uint8_t {
  constant,
  reflect,    ///< x mirrored at its border element, which is not repeated. At most size - 1 elements per side.
  replicate,  ///< x's border element, repeated.
  circular,   ///< x's elements from the opposite side. At most size elements per side.
};

}  // namespace lockstep

template <>
struct lockstep::ChoiceNames<lockstep::PadMode> {
  static constexpr const char* kOption = "mode";
  static constexpr std::string_view kNames[] = {"constant", "reflect", "replicate", "circular"};
};

namespace lockstep {

struct PaddingOptions {
  Choice<PadMode> mode = PadMode::constant;  ///< The values of the padding.
  double value = 0;                          ///< The constant, for PadMode::constant.
};
/// `padding` holds, from the last dimension on, the number of elements to add before and after; negative numbers cut.
/// Throws ShapeError if x has too few elements to cut or repeat, and InvalidArgument for a value with another mode.
LOCKSTEP_API Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, const PaddingOptions& options = {});
inline Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, double value) {
  return pad(x, padding, PaddingOptions{.value = value});
}
/// The part of each matrix on and below (tril) or above (triu) the diagonal, which `diagonal` moves up; zeros
/// elsewhere.
LOCKSTEP_API Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
LOCKSTEP_API Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
/// Repeats the whole tensor `repeats[i]` times along dimension i. More repeats than dimensions add leading dimensions.
LOCKSTEP_API Tensor repeat(const Tensor& x, const Shape& repeats);
/// Like repeat(), but fewer repeats than dimensions apply to the last dimensions.
LOCKSTEP_API Tensor tile(const Tensor& x, const Shape& repeats);
/// Repeats each element `repeats` times in a row along `dim`.
LOCKSTEP_API Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::int64_t dim);

/// Views: diagonal() has the elements [i, i + offset] of dim0 and dim1 as its last dimension; movedim() moves dimension
/// `from` to position `to`.
LOCKSTEP_API Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t dim0 = 0, std::int64_t dim1 = 1);
LOCKSTEP_API Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to);
/// Tensor::transpose() by NumPy's names.
inline Tensor swapaxes(const Tensor& x, std::int64_t dim0, std::int64_t dim1) { return x.transpose(dim0, dim1); }
inline Tensor swapdims(const Tensor& x, std::int64_t dim0, std::int64_t dim1) { return x.transpose(dim0, dim1); }
/// A view in which dimension `dim` is split into dimensions of these sizes; one of them may be -1. The inverse of
/// Tensor::flatten().
LOCKSTEP_API Tensor unflatten(const Tensor& x, std::int64_t dim, const Shape& sizes);
/// For a vector, the matrix with the vector on a diagonal; for a matrix, a copy of that diagonal.
LOCKSTEP_API Tensor diag(const Tensor& x, std::int64_t offset = 0);
/// The order of the first two dimensions of a grid: by row and column (ij), or by x and y (xy).
enum class Indexing : std::uint8_t { ij, xy };

}  // namespace lockstep

template <>
struct lockstep::ChoiceNames<lockstep::Indexing> {
  static constexpr const char* kOption = "indexing";
  static constexpr std::string_view kNames[] = {"ij", "xy"};
};

namespace lockstep {

struct MeshgridOptions {
  Choice<Indexing> indexing = Indexing::ij;  ///< "xy": the first two dimensions of each grid are swapped.
};
/// Coordinate grids: for vectors of sizes a, b, ..., returns one view [a, b, ...] of each vector, which varies along
/// its own dimension only. Throws ShapeError unless each vector has at most one dimension.
LOCKSTEP_API std::vector<Tensor> meshgrid(std::span<const Tensor> vectors, const MeshgridOptions& options = {});
inline std::vector<Tensor> meshgrid(std::initializer_list<Tensor> vectors, const MeshgridOptions& options = {}) {
  return meshgrid(std::span(vectors.begin(), vectors.size()), options);
}

}  // namespace lockstep
