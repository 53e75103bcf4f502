// The partial inverse of max pooling: writes elements to the saved indices, and zeros everywhere else.
#include <lockstep/ops/index.h>
#include <lockstep/ops/pooling.h>

#include "core/text.h"
#include "ops/index_check.h"
#include "ops/put_elements.h"
#include "ops/record.h"
#include "ops/sorted_places.h"
#include "ops/window/planes.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

Shape unpooled_sizes(const char* op, const Tensor& x, int dims, const PerDimension& kernel_size,
                     const MaxUnpoolOptions& options) {
  const Shape size = kernel_size.over(op, "kernel_size", dims, 1);
  const Shape stride = options.stride ? options.stride->over(op, "stride", dims, 1) : size;
  const Shape padding = options.padding.over(op, "padding", dims, 0);
  Shape out;
  for (int d = 0; d < dims; ++d)
    out.push_back((x.sizes()[x.dim() - dims + d] - 1) * stride[d] - 2 * padding[d] + size[d]);
  if (!options.output_size) return out;
  const Shape& wanted = *options.output_size;
  bool fits = wanted.rank() == dims;
  for (int d = 0; fits && d < dims; ++d) fits = wanted[d] > out[d] - stride[d] && wanted[d] < out[d] + stride[d];
  if (!fits)
    throw ShapeError(text("[", op, "] expected an output_size of ", dims, " sizes, each less than a stride from ", out,
                          ", got ", wanted));
  return wanted;
}

Tensor unpool(const char* op, const char* node, const Tensor& x, const Tensor& indices, int dims,
              const PerDimension& kernel_size, const MaxUnpoolOptions& options) {
  check_same_device(op, x, indices);
  check_images(op, x, dims);
  const Tensor index = as_index(op, indices);
  if (index.sizes() != x.sizes())
    throw ShapeError(text("[", op, "] expected indices of x's sizes ", x.sizes(), ", got ", index.sizes()));
  const Shape spatial = unpooled_sizes(op, x, dims, kernel_size, options);
  const std::int64_t places_in_plane = checked_elements(op, spatial);
  Shape sizes;
  std::int64_t planes = 1;
  for (int d = 0; d < x.dim() - dims; ++d) {
    sizes.push_back(x.sizes()[d]);
    planes *= x.sizes()[d];
  }
  for (const std::int64_t size : spatial) sizes.push_back(size);
  const Shape flat = {planes, x.numel() / std::max<std::int64_t>(planes, 1)};
  const Tensor places = index.reshape(flat).contiguous();
  check_index(op, places, places_in_plane);
  const Tensor source = x.reshape(flat);
  Tensor out = make_tensor(*x.impl()->storage->device, {planes, places_in_plane}, x.dtype());
  fill_values(out, 0);
  if (source.numel() > 0)
    visit_bits(x.dtype(), [&]<class T>() {
      map_rows<T, std::int64_t, std::int64_t, T>(op, 0, PutElements<T>(), 1, out, places, order_on_gpu(op, places, 1),
                                                 source);
    });
  if (records(source))
    record(node, out, {&source},
           [places = Saved(places)](const Tensor& g) { return Gradients{gather_elements(g, 1, places.get())}; });
  return out.view(sizes);
}

}  // namespace

Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const PerDimension& kernel_size,
                    const MaxUnpoolOptions& options) {
  return unpool("max_unpool1d", "MaxUnpool1D", x, indices, 1, kernel_size, options);
}
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const PerDimension& kernel_size,
                    const MaxUnpoolOptions& options) {
  return unpool("max_unpool2d", "MaxUnpool2D", x, indices, 2, kernel_size, options);
}
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const PerDimension& kernel_size,
                    const MaxUnpoolOptions& options) {
  return unpool("max_unpool3d", "MaxUnpool3D", x, indices, 3, kernel_size, options);
}

}  // namespace lockstep
