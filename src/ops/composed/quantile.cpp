// kthvalue and quantile: both select elements of the sorted tensor.
#include <lockstep/ops/order.h>

#include <array>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "ops/dtypes.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

enum class Between { linear, lower, higher, nearest, midpoint };

Between interpolation_of(std::string_view name) {
  using enum Between;
  constexpr std::array<std::pair<std::string_view, Between>, 5> kNames = {
      {{"linear", linear}, {"lower", lower}, {"higher", higher}, {"nearest", nearest}, {"midpoint", midpoint}}};
  for (const auto& [known, between] : kNames)
    if (known == name) return between;
  throw InvalidArgument(text("[quantile] expected linear, lower, higher, nearest or midpoint, got \"", name, "\""));
}

void check_quantile(const Tensor& x, const Tensor& q) {
  check_same_device("quantile", x, q);
  check_floating("quantile", x);
  if (q.dtype() != x.dtype()) throw DTypeError(text("[quantile] expected q of ", x.dtype(), ", got ", q.dtype()));
  if (q.dim() > 1) throw ShapeError(text("[quantile] expected a number or a vector q, got ", q.sizes()));
  if (q.device().is_cpu() && !all(logical_and(ge(q, 0), le(q, 1))).item<bool>())
    throw InvalidArgument(text("[quantile] expected q from 0 to 1, got ", q.detach()));
}

}  // namespace

ValuesAndIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim, bool keep_dims) {
  const int d = wrap_dim("kthvalue", dim, impl_of("kthvalue", x).sizes.rank());
  const std::int64_t size = x.dim() ? x.sizes()[d] : 1;
  if (k < 1 || k > size) throw ShapeError(text("[kthvalue] expected k from 1 to ", size, ", got ", k));
  if (x.dim() == 0) return topk(x, 1);
  const Tensor places = topk(x.detach(), k, d, false).indices.narrow(d, k - 1, 1).clone();
  const Tensor values = gather_elements(x, d, places);
  if (keep_dims) return {values, places};
  return {values.squeeze(d), places.squeeze(d)};
}

Tensor quantile(const Tensor& x, const Tensor& q, std::optional<std::int64_t> dim, bool keep_dims,
                std::string_view interpolation) {
  const Between between = interpolation_of(interpolation);
  check_quantile(x, q);
  if (const Tensor wide = widened(x); wide.dtype() != x.dtype())
    return quantile(wide, widened(q), dim, keep_dims, interpolation).to(x.dtype());
  const int d = dim ? wrap_dim("quantile", *dim, x.dim()) : -1;
  const Tensor rows = d < 0 || x.dim() == 0 ? x.reshape(-1) : movedim(x, d, -1);
  const std::int64_t last = rows.size(-1) - 1;
  if (last < 0 || x.numel() == 0) throw ShapeError(text("[quantile] expected at least one element, got ", x.sizes()));

  const Tensor ordered = sort(rows, -1).values;
  const Tensor has_nan = isnan(ordered.detach().narrow(-1, last, 1));
  const Tensor wanted = (q.dim() ? q : q.unsqueeze(0)) * double(last);
  Tensor ranks = where(has_nan, full({}, double(last), q.options()), wanted);
  if (between == Between::lower) ranks = floor(ranks);
  if (between == Between::higher) ranks = ceil(ranks);
  if (between == Between::nearest) ranks = round(ranks);
  const Tensor whole = floor(ranks.detach());
  Tensor result = gather_elements(ordered, -1, whole.to(kInt64));
  if (between == Between::linear || between == Between::midpoint) {
    const Tensor above = gather_elements(ordered, -1, ceil(ranks.detach()).to(kInt64));
    result = lerp(result, above, between == Between::linear ? ranks - whole : full_like(ranks.detach(), 0.5));
  }

  result = movedim(result, -1, 0);  // [number of elements of q, the other sizes...]
  if (keep_dims && d >= 0 && x.dim() > 0) result = result.unsqueeze(d + 1);
  if (keep_dims && d < 0) {
    Shape sizes = Shape::filled(x.dim(), 1);
    sizes.insert(0, result.size(0));
    result = result.view(sizes);
  }
  return q.dim() ? result : result.squeeze(0);
}

Tensor quantile(const Tensor& x, double q, std::optional<std::int64_t> dim, bool keep_dims,
                std::string_view interpolation) {
  impl_of("quantile", x);
  if (!(q >= 0 && q <= 1)) throw InvalidArgument(text("[quantile] expected q from 0 to 1, got ", q));
  const Tensor wide = widened(x);  // float32 or wider, so that q keeps its precision
  return quantile(wide, full({}, q, wide.options()), dim, keep_dims, interpolation).to(x.dtype());
}

}  // namespace lockstep
