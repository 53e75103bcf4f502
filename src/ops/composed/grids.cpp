// Matrices and grids made from vectors, as views or copies.
#include <lockstep/ops/layout.h>

#include <algorithm>
#include <cstdlib>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/index.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

Tensor diag(const Tensor& x, std::int64_t offset) {
  const Shape& sizes = impl_of("diag", x).sizes;
  if (sizes.rank() == 2) return diagonal(x, offset).clone();
  if (sizes.rank() != 1) throw ShapeError(text("[diag] expected a vector or a matrix, got ", sizes));
  const std::int64_t size = sizes[0] + std::abs(offset);
  const std::int64_t first = offset < 0 ? -offset * size : offset;
  const Tensor places =
      arange(double(sizes[0]), {.dtype = kInt64, .device = x.device()}) * double(size + 1) + double(first);
  const Tensor none = zeros(size * size, x.options());
  return scatter_elements(none, 0, places, x).view({size, size});
}

Tensor rot90(const Tensor& x, std::int64_t k, const Shape& dims) {
  const Shape& sizes = impl_of("rot90", x).sizes;
  if (dims.rank() != 2) throw InvalidArgument(text("[rot90] expected two dimensions to turn in, got ", dims));
  const int first = wrap_dim("rot90", dims[0], sizes.rank()), second = wrap_dim("rot90", dims[1], sizes.rank());
  if (first == second) throw ShapeError(text("[rot90] expected two different dimensions, got ", dims));
  const std::int64_t turns = ((k % 4) + 4) % 4;
  if (turns == 0) return x.clone();
  if (turns == 2) return flip(x, {first, second});
  return flip(x, {turns == 1 ? second : first}).transpose(first, second);
}

std::vector<Tensor> meshgrid(std::span<const Tensor> vectors, const MeshgridOptions& options) {
  Shape sizes;
  for (const Tensor& x : vectors) {
    if (impl_of("meshgrid", x).sizes.rank() > 1) throw ShapeError(text("[meshgrid] expected vectors, got ", x.sizes()));
    check_same_device("meshgrid", vectors[0], x);
    sizes.push_back(x.numel());
  }
  std::vector<Tensor> grids;
  for (int i = 0; i < sizes.rank(); ++i) {
    Shape own = Shape::filled(sizes.rank(), 1);
    own[i] = sizes[i];
    grids.push_back(vectors[std::size_t(i)].reshape(own).expand(sizes));
    if (options.indexing == Indexing::xy && sizes.rank() > 1) grids.back() = grids.back().transpose(0, 1);
  }
  return grids;
}

}  // namespace lockstep
