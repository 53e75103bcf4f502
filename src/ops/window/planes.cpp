#include "ops/window/planes.h"

#include "core/text.h"
#include "kernels/window/window_sum.h"
#include "ops/record.h"
#include "tensor/copy.h"

namespace lockstep {

ImageLayout layout_of(const Tensor& x) {
  const bool channels_last = !x.is_contiguous() && is_channels_last(x.sizes(), x.strides());
  return channels_last ? ImageLayout::channels_last : ImageLayout::row_major;
}

Tensor make_images(DeviceState& device, const Shape& sizes, DType dtype, ImageLayout layout) {
  const Tensor memory = make_tensor(device, sizes, dtype);
  if (layout == ImageLayout::row_major) return memory;
  return make_view(memory, sizes, channels_last_strides(sizes), 0);
}

Tensor dense_in(ImageLayout layout, const Tensor& x) {
  const Shape strides =
      layout == ImageLayout::channels_last ? channels_last_strides(x.sizes()) : contiguous_strides(x.sizes());
  bool is_so = true;  // the stride of a dimension of size 1 does not matter
  for (int d = 0; d < x.dim(); ++d) is_so &= x.sizes()[d] == 1 || x.strides()[d] == strides[d];
  if (is_so || x.numel() == 0) return x;
  const Tensor dense = make_images(*x.impl()->storage->device, x.sizes(), x.dtype(), layout);
  copy_values(dense, x);
  return dense;
}

WindowPlanes planes_over(const Shape& sizes, const SpatialTaps& taps, ImageLayout layout) {
  const std::int64_t batch = sizes[0], channels = sizes[1];
  WindowPlanes windows;
  if (layout == ImageLayout::channels_last) {
    windows.planes = batch;
    windows.row_is_spatial = false;
    windows.axes[3] = Taps::identity(channels);
  } else {
    windows.planes = batch * channels;
    windows.axes[3] = taps.axes[std::size_t(taps.dims - 1)];
  }
  const int outer = layout == ImageLayout::channels_last ? taps.dims : taps.dims - 1;
  for (int d = 0; d < outer; ++d) windows.axes[std::size_t(3 - outer + d)] = taps.axes[std::size_t(d)];
  return windows;
}

Shape sizes_after(const Shape& sizes, const SpatialTaps& taps, bool transposed) {
  Shape after = sizes;
  for (int d = 0; d < taps.dims; ++d) {
    const Taps& axis = taps.axes[std::size_t(d)];
    after[d + 2] = transposed ? axis.in : axis.out;
  }
  return after;
}

Tensor sum_windows(const char* op, const char* node, const Tensor& x, const SpatialTaps& taps, ImageLayout layout,
                   bool transposed) {
  const Tensor from = dense_in(layout, x);
  Tensor y = make_images(*x.impl()->storage->device, sizes_after(x.sizes(), taps, transposed), x.dtype(), layout);
  const WindowPlanes windows = planes_over(x.sizes(), taps, layout);
  visit_floating(op, x.dtype(), [&]<class T>() {
    if (y.numel() == 0) return;
    const WindowSum<T> kernel{reinterpret_cast<const T*>(from.impl()->data()), reinterpret_cast<T*>(y.impl()->data()),
                              windows, transposed};
    launch(op, 2 * double(std::max(x.numel(), y.numel())), std::array{&y}, std::array{&from}, kernel);
  });
  if (records(x))
    record(node, y, {&x}, [op, node, taps, layout, transposed](const Tensor& g) {
      return Gradients{sum_windows(op, node, g, taps, layout, !transposed)};
    });
  return y;
}

void check_images(const char* op, const Tensor& x, int dims) {
  const Shape& sizes = impl_of(op, x).sizes;
  bool fits = sizes.rank() == dims + 1 || sizes.rank() == dims + 2;
  for (int d = sizes.rank() - dims - 1; fits && d < sizes.rank(); ++d) fits = sizes[d] > 0;
  if (!fits)
    throw ShapeError(text("[", op, "] expected x [N, C, ", dims, " sizes] or [C, ", dims,
                          " sizes], where only N may be 0, got ", sizes));
}

}  // namespace lockstep
