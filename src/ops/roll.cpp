#include <lockstep/ops/layout.h>

#include <algorithm>

#include <lockstep/ops/join.h>

#include "core/text.h"
#include "ops/record.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

std::int64_t size_of_dim(const Tensor& x, int dim) { return x.dim() ? x.sizes()[dim] : 1; }

Tensor shifted(const Tensor& x, int dim, std::int64_t shift) {
  const std::int64_t size = size_of_dim(x, dim), rest = size ? shift % size : 0;
  const std::int64_t moved = rest < 0 ? rest + size : rest;
  if (moved == 0) return x;
  return cat({x.narrow(dim, size - moved, moved), x.narrow(dim, 0, size - moved)}, dim);
}

}  // namespace

Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims) {
  impl_of("roll", x);
  if (shifts.rank() != dims.rank())
    throw ShapeError(text("[roll] expected one shift for each of the dimensions ", dims, ", got ", shifts));
  Tensor out = x.detach();
  for (int i = 0; i < dims.rank(); ++i) out = shifted(out, wrap_dim("roll", dims[i], x.dim()), shifts[i]);
  if (out.impl()->storage == x.impl()->storage) out = out.clone();  // nothing was shifted: must not share memory
  if (records(x)) {
    Shape back = shifts;
    for (int i = 0; i < back.rank(); ++i)
      back[i] = -(shifts[i] % std::max<std::int64_t>(1, size_of_dim(x, wrap_dim("roll", dims[i], x.dim()))));
    record("Roll", out, {&x}, [back, dims](const Tensor& g) { return Gradients{roll(g, back, dims)}; });
  }
  return out;
}

}  // namespace lockstep
