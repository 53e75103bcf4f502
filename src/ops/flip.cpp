#include <lockstep/ops/layout.h>

#include "kernels/map/map.h"
#include "ops/record.h"
#include "ops/reduced_dims.h"
#include "tensor/copy.h"

namespace lockstep {
Tensor flip(const Tensor& x, const Shape& dims) {
  const TensorImpl& from = impl_of("flip", x);
  const DimMask mask = mask_of("flip", dims, from.sizes.rank());
  Tensor out = make_tensor(*from.storage->device, from.sizes, from.dtype);
  if (from.numel == 1) {
    copy_values(out, x);
  } else if (from.numel != 0) {
    // Reads each flipped dimension from its last element, with a negated stride.
    Geometry<2> geometry;
    geometry.sizes = from.sizes;
    geometry.strides = {out.strides(), from.strides};
    geometry.numel = from.numel;
    std::int64_t start = 0;
    for (int i = 0; i < from.sizes.rank(); ++i)
      if (mask[std::size_t(i)]) {
        start += (from.sizes[i] - 1) * from.strides[i];
        geometry.strides[1][i] = -from.strides[i];
      }
    collapse(geometry);
    const auto& forms = visit_bits(from.dtype, FormsOfOneType<Identity, Tensor>());
    const ElementwiseKernel<Identity, 2> kernel{
        {{out.impl()->data(), from.data() + start * std::int64_t(size_of(from.dtype))}, geometry}, Identity(), &forms};
    launch("flip", 0, out, std::array{&x}, kernel);
  }
  if (records(x)) record("Flip", out, {&x}, [dims](const Tensor& g) { return Gradients{flip(g, dims)}; });
  return out;
}

}  // namespace lockstep
