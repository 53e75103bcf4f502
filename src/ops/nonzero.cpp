// Operations whose result size the host must count.
#include <lockstep/ops/index.h>

#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

// The indices of nonzero elements in row-major order, as if x had one dimension.
std::vector<std::int64_t> places_in(const Tensor& x) {
  const std::vector<std::uint8_t> holds = x.to(kBool).to(kUInt8).to_vector<std::uint8_t>();
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < holds.size(); ++i)
    if (holds[i]) places.push_back(std::int64_t(i));
  return places;
}

}  // namespace

Tensor nonzero(const Tensor& x) {
  const Shape sizes = impl_of("nonzero", x).sizes;
  std::vector<std::int64_t> places = places_in(x), indices(places.size() * std::size_t(sizes.rank()));
  for (int d = sizes.rank() - 1; d >= 0; --d)
    for (std::size_t i = 0; i < places.size(); places[i++] /= sizes[d])
      indices[i * std::size_t(sizes.rank()) + std::size_t(d)] = places[i] % sizes[d];
  return from_host(indices.data(), indices.size(), kInt64, {std::int64_t(places.size()), sizes.rank()},
                   {.dtype = kInt64, .device = x.device()});
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  check_same_device("masked_select", x, mask);
  if (mask.dtype() != kBool) throw DTypeError(text("[masked_select] expected a bool mask, got ", mask.dtype()));
  const Shape sizes = broadcast("masked_select", x.sizes(), mask.sizes());
  const std::vector<std::int64_t> places = places_in(mask.expand(sizes));
  return index_select(x.expand(sizes).flatten(), 0, tensor(places, {.device = x.device()}));
}

}  // namespace lockstep
