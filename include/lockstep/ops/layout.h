// Elements in other places: mirrored, shifted, padded, cut to a triangle, repeated. Copies, for every dtype.
// Differentiable. Throw ShapeError for dimensions that are not there or are repeated.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <lockstep/core/choice.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// In reverse order along each of `dims`.
LOCKSTEP_API Tensor flip(const Tensor& x, const Shape& dims);
/// Turned by k times 90 degrees in the plane of two dimensions, from the first toward the second. Throws
/// InvalidArgument unless `dims` are two.
LOCKSTEP_API Tensor rot90(const Tensor& x, std::int64_t k = 1, const Shape& dims = {0, 1});
/// Shifted to higher places by shifts[i] along dims[i]; what leaves at the end comes in at the start.
LOCKSTEP_API Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims);
/// What is added around a tensor.
enum class PadMode : std::uint8_t {
  constant,
  reflect,    ///< Its mirror image, without the border itself: at most one element fewer than x has.
  replicate,  ///< Its border.
  circular,   ///< The tensor again from its other side: at most as many elements as x has.
};

}  // namespace lockstep

template <>
struct lockstep::ChoiceNames<lockstep::PadMode> {
  static constexpr const char* kOption = "mode";
  static constexpr std::string_view kNames[] = {"constant", "reflect", "replicate", "circular"};
};

namespace lockstep {

struct PaddingOptions {
  Choice<PadMode> mode = PadMode::constant;  ///< What is added.
  double value = 0;                          ///< Of PadMode::constant.
};
/// `padding` holds, from the last dimension on, the number of elements to add before and after; negative ones cut.
/// Throws ShapeError for more than x has to cut or repeat, and InvalidArgument for a value with another mode.
LOCKSTEP_API Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, const PaddingOptions& options = {});
inline Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, double value) {
  return pad(x, padding, PaddingOptions{.value = value});
}
/// Of each matrix, the part on and below (tril) or above (triu) the diagonal, which may be moved up by `diagonal`;
/// zeros elsewhere.
LOCKSTEP_API Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
LOCKSTEP_API Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
/// The whole, `repeats[i]` times along dimension i. There may be more repeats than dimensions: these come first.
LOCKSTEP_API Tensor repeat(const Tensor& x, const Shape& repeats);
/// The same, but fewer repeats than dimensions are those of the last dimensions.
LOCKSTEP_API Tensor tile(const Tensor& x, const Shape& repeats);
/// Each element `repeats` times in a row along `dim`.
LOCKSTEP_API Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::int64_t dim);

/// Views: the elements [i, i + offset] of dim0 and dim1, as the last dimension; dimension `from` as dimension `to`.
LOCKSTEP_API Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t dim0 = 0, std::int64_t dim1 = 1);
LOCKSTEP_API Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to);
/// Tensor::transpose() by NumPy's names.
inline Tensor swapaxes(const Tensor& x, std::int64_t dim0, std::int64_t dim1) { return x.transpose(dim0, dim1); }
inline Tensor swapdims(const Tensor& x, std::int64_t dim0, std::int64_t dim1) { return x.transpose(dim0, dim1); }
/// A view in which dimension `dim` has become several, of these sizes: one may be -1. The inverse of
/// Tensor::flatten().
LOCKSTEP_API Tensor unflatten(const Tensor& x, std::int64_t dim, const Shape& sizes);
/// Of a vector, the matrix that has it on a diagonal; of a matrix, a copy of that diagonal.
LOCKSTEP_API Tensor diag(const Tensor& x, std::int64_t offset = 0);
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
/// From vectors of sizes a, b, ... one grid each: a view [a, b, ...] that varies along the vector's own dimension.
/// Throws ShapeError unless each has at most one dimension.
LOCKSTEP_API std::vector<Tensor> meshgrid(std::span<const Tensor> vectors, const MeshgridOptions& options = {});
inline std::vector<Tensor> meshgrid(std::initializer_list<Tensor> vectors, const MeshgridOptions& options = {}) {
  return meshgrid(std::span(vectors.begin(), vectors.size()), options);
}

}  // namespace lockstep
