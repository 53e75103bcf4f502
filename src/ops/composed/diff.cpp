#include <lockstep/ops/order.h>

#include <algorithm>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/join.h>

#include "core/text.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

Tensor diff(const Tensor& x, std::int64_t n, std::int64_t dim, const Tensor& prepend, const Tensor& append) {
  const Shape& sizes = impl_of("diff", x).sizes;
  if (sizes.empty()) throw ShapeError("[diff] expected a tensor with dimensions, got a 0-dim one");
  if (n < 0) throw InvalidArgument(text("[diff] expected n of at least 0, got ", n));
  const int d = wrap_dim("diff", dim, sizes.rank());
  if (prepend.defined()) return diff(cat({prepend, x}, d), n, d, {}, append);
  if (append.defined()) return diff(cat({x, append}, d), n, d);
  Tensor result = x;
  for (std::int64_t i = std::min(n, sizes[d]); i > 0; --i) {
    const std::int64_t left = std::max<std::int64_t>(0, result.sizes()[d] - 1);
    const Tensor after = result.slice(d, 1), before = result.narrow(d, 0, left);
    result = x.dtype() == kBool ? ne(after, before) : sub(after, before);
  }
  return result;
}

}  // namespace lockstep
