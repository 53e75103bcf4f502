#include <lockstep/ops/index.h>

#include "core/text.h"
#include "ops/index_check.h"
#include "ops/index_slices.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  check_same_device("index_select", x, index);
  const Tensor places = as_index("index_select", index);
  if (x.dim() == 0 || places.dim() != 1)
    throw ShapeError(
        text("[index_select] expected a tensor of at least one dimension and a 1-dimensional tensor of indices, got ",
             x.sizes(), " and ", places.sizes()));
  const int d = wrap_dim("index_select", dim, x.dim());
  check_index("index_select", places, x.sizes()[d]);
  return gather_slices("index_select", "IndexSelect", x, d, places);
}

Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<std::int64_t> padding_idx) {
  check_same_device("embedding", weight, index);
  const Tensor places = as_index("embedding", index);
  if (weight.dim() == 0) throw ShapeError("[embedding] expected a weight [count, ...], got a 0-dim one");
  const std::int64_t count = weight.sizes()[0];
  std::int64_t padding = padding_idx.value_or(-1);
  if (padding_idx && (padding < -count || padding >= count))
    throw InvalidArgument(
        text("[embedding] expected a padding index in [", -count, ", ", count - 1, "], got ", padding));
  if (padding_idx && padding < 0) padding += count;
  check_index("embedding", places, count);
  Shape sizes = places.sizes();
  for (int i = 1; i < weight.dim(); ++i) sizes.push_back(weight.sizes()[i]);
  return gather_slices("embedding", "Embedding", weight, 0, places.reshape({places.numel()}), {}, {padding})
      .view(sizes);
}

}  // namespace lockstep
