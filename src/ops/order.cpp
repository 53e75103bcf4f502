// sort and topk. Elements become integer keys of the same order, so that one kernel sorts every dtype; the values are
// then gathered by index, which defines their gradient.
#include <lockstep/ops/order.h>

#include <bit>
#include <limits>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "kernels/map/map.h"
#include "ops/record.h"
#include "ops/shared_gradient.h"
#include "ops/sorted_places.h"

namespace lockstep {
namespace {

struct OrderKey {
  bool descending;

  template <class C>
  LOCKSTEP_HD std::int64_t operator()(C x) const {
    std::int64_t key = 0;
    if constexpr (std::is_integral_v<C>) {
      key = std::int64_t(x);
    } else if (x != x) {
      key = std::numeric_limits<std::int64_t>::max();
    } else if (x != 0) {  // -0 and 0 both get the key 0
      const auto bits = std::bit_cast<std::int64_t>(double(x));
      key = bits < 0 ? bits ^ std::numeric_limits<std::int64_t>::max() : bits;
    }
    return descending ? ~key : key;
  }
};

std::int64_t length_of(const Tensor& x, int dim) { return x.dim() ? x.sizes()[dim] : 1; }

Tensor places_of(const char* op, const Tensor& x, int dim, std::int64_t count, bool descending) {
  const Tensor keys = make_tensor(*x.impl()->storage->device, x.sizes(), kInt64);
  const auto& forms = visit_all(
      x.dtype(), [&]<class T>() -> auto& { return map_forms<OrderKey, std::int64_t, T>(); });
  map("order_key", 1, forms, OrderKey{descending}, keys, x);
  return sorted_places(op, keys, dim, count);
}

}  // namespace

Tensor argsort(const Tensor& x, std::int64_t dim, bool descending) {
  const int d = wrap_dim("sort", dim, impl_of("sort", x).sizes.rank());
  return places_of("sort", x, d, length_of(x, d), descending);
}

ValuesAndIndices sort(const Tensor& x, std::int64_t dim, bool descending) {
  const Tensor places = argsort(x, dim, descending);
  return {gather_elements(x, dim, places), places};
}

// If any element is NaN, the last element in sorted order is NaN, and so is the median.
ValuesAndIndices median(const Tensor& x, std::int64_t dim, bool keep_dims) {
  const int d = wrap_dim("median", dim, impl_of("median", x).sizes.rank());
  const std::int64_t count = length_of(x, d);
  if (count == 0) throw ShapeError(text("[median] expected elements along dimension ", d, ", got ", x.sizes()));
  if (x.dim() == 0) return {x, zeros({}, {.dtype = kInt64, .device = x.device()})};
  const Tensor places = argsort(x, d);
  Tensor place = places.narrow(d, (count - 1) / 2, 1);
  if (is_floating(x.dtype())) {
    const NoGrad guard;
    const Tensor last = gather_elements(x, d, places.narrow(d, count - 1, 1));
    place = where(isnan(last), argmax(x, d, true), place);
  }
  const Tensor value = gather_elements(x, d, place);
  if (keep_dims) return {value, place};
  return {value.squeeze(d), place.squeeze(d)};
}
Tensor median(const Tensor& x) {
  Tensor out = median(impl_of("median", x).sizes.empty() ? x.detach() : x.detach().flatten(), 0).values;
  if (x.dim() == 0) out = out.clone();
  if (records(x))
    record("Median", out, {&x}, [x = Saved(x), y = Saved(out, kOutput)](const Tensor& g) {
      const Tensor from = x.get();
      return Gradients{shared_evenly(g, from, y.get(), all_of(from.dim()))};
    });
  return out;
}

ValuesAndIndices topk(const Tensor& x, std::int64_t count, std::int64_t dim, bool greatest) {
  const int d = wrap_dim("topk", dim, impl_of("topk", x).sizes.rank());
  if (count < 0 || count > length_of(x, d))
    throw ShapeError(text("[topk] expected a count from 0 to ", length_of(x, d), ", got ", count));
  if (x.dim() == 0 && count == 0)
    throw ShapeError("[topk] a count of 0 needs at least 1 dimension, got a 0-dim tensor");
  const Tensor places = places_of("topk", x, d, count, greatest);
  return {gather_elements(x, d, places), places};
}

}  // namespace lockstep
