// unique() and bincount(), made of sorting and of sums by index.
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/order.h>
#include <lockstep/tensor/creation.h>

#include <algorithm>

#include "core/text.h"
#include "ops/index_check.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

Unique unique(const Tensor& x) {
  impl_of("unique", x);
  const Tensor all = x.detach().reshape(-1);
  const TensorOptions integers{.dtype = kInt64, .device = x.device()};
  if (all.numel() == 0) return {all.clone(), zeros(x.sizes(), integers), zeros(0, integers)};
  const auto [values, places] = sort(all, 0);
  const std::int64_t last = values.numel() - 1;
  const Tensor differs =
      cat({zeros(1, integers), ne(values.slice(0, 1, last + 1), values.slice(0, 0, last)).to(kInt64)});
  const Tensor group = cumsum(differs, 0);  // for each element in sorted order, the number of its distinct value
  const Tensor first = cat({ones(1, integers), differs.slice(0, 1, last + 1)});
  const Tensor inverse = scatter_elements(zeros(all.numel(), integers), 0, places, group);
  return {masked_select(values, first.to(kBool)), inverse.view(x.sizes()), bincount(group)};
}

Tensor bincount(const Tensor& x, const Tensor& weights, std::int64_t min_length) {
  const Tensor places = as_index("bincount", x.dtype() == kUInt8 ? x.to(kInt64) : x);
  if (places.dim() != 1 || (weights.defined() && weights.sizes() != places.sizes()))
    throw ShapeError(text("[bincount] expected vectors of one size, got ", places.sizes(),
                          weights.defined() ? text(" and ", weights.sizes()) : ""));
  if (min_length < 0) throw InvalidArgument(text("[bincount] expected a length of at least 0, got ", min_length));
  if (places.numel() && min(places).item<std::int64_t>() < 0)
    throw InvalidArgument(text("[bincount] expected integers of at least 0, got ", min(places).item<std::int64_t>()));
  const std::int64_t greatest = places.numel() ? max(places).item<std::int64_t>() : -1;
  const DType dtype = !weights.defined() ? kInt64 : is_floating(weights.dtype()) ? weights.dtype() : kInt64;
  const TensorOptions options{.dtype = dtype, .device = x.device()};
  const Tensor counted = weights.defined() ? weights.to(dtype) : ones(places.sizes(), options);
  return scatter_add(zeros(std::max(greatest + 1, min_length), options), 0, places, counted);
}

}  // namespace lockstep
