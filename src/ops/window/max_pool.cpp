// Max pooling. If a gradient is needed, the indices of the maxima are saved, and backward adds at these indices.
#include <lockstep/ops/pooling.h>

#include <limits>

#include "core/text.h"
#include "kernels/window/window_max.h"
#include "ops/record.h"
#include "ops/window/window_axis.h"

namespace lockstep {
namespace {

struct Pooling {
  const char* op;
  const char* node;
};

template <class T>
T* data_of(const Tensor& x) {
  return x.defined() ? reinterpret_cast<T*>(x.impl()->data()) : nullptr;
}

Tensor pick_places(const Pooling& pooling, const Tensor& x, const Tensor& places, const SpatialTaps& taps,
                   ImageLayout layout);

// Zeros of the inputs' sizes, with g added at the saved indices.
Tensor add_places(const Pooling& pooling, const Tensor& g, const Tensor& places, const SpatialTaps& taps,
                  ImageLayout layout) {
  const Tensor from = dense_in(layout, g);
  Tensor out = make_images(*g.impl()->storage->device, sizes_after(g.sizes(), taps, true), g.dtype(), layout);
  visit_floating(pooling.op, g.dtype(), [&]<class T>() {
    const WindowAdd<T> kernel{data_of<const T>(from), data_of<const std::int64_t>(places), data_of<T>(out),
                              planes_over(g.sizes(), taps, layout)};
    if (out.numel() > 0) launch(pooling.op, double(g.numel()), std::array{&out}, std::array{&from, &places}, kernel);
  });
  if (records(g))
    record(pooling.node, out, {&g}, [pooling, places = Saved(places), taps, layout](const Tensor& gg) {
      return Gradients{pick_places(pooling, gg, places.get(), taps, layout)};
    });
  return out;
}

Tensor pick_places(const Pooling& pooling, const Tensor& x, const Tensor& places, const SpatialTaps& taps,
                   ImageLayout layout) {
  const Tensor from = dense_in(layout, x);
  Tensor out = make_images(*x.impl()->storage->device, sizes_after(x.sizes(), taps), x.dtype(), layout);
  visit_bits(x.dtype(), [&]<class T>() {
    const WindowPick<T> kernel{data_of<const T>(from), data_of<const std::int64_t>(places), data_of<T>(out),
                               planes_over(x.sizes(), taps, layout)};
    if (out.numel() > 0) launch(pooling.op, 0, std::array{&out}, std::array{&from, &places}, kernel);
  });
  if (records(x))
    record(pooling.node, out, {&x}, [pooling, places = Saved(places), taps, layout](const Tensor& g) {
      return Gradients{add_places(pooling, g, places.get(), taps, layout)};
    });
  return out;
}

// x: [N, C, spatial...].
ValuesAndIndices pool(const Pooling& pooling, const Tensor& x, const SpatialTaps& taps, bool wants_places) {
  const ImageLayout layout = layout_of(x);
  const WindowPlanes windows = planes_over(x.sizes(), taps, layout);
  if (windows.input_rows() > std::numeric_limits<std::int32_t>::max())
    throw ShapeError(text("[", pooling.op, "] expected images of fewer than 2^31 rows, got ", x.sizes()));
  const Tensor from = dense_in(layout, x);
  DeviceState& device = *x.impl()->storage->device;
  const Shape sizes = sizes_after(x.sizes(), taps);
  Tensor values = make_images(device, sizes, x.dtype(), layout);
  Tensor places;
  if (wants_places || records(x)) places = make_images(device, sizes, kInt64, layout);
  visit_numeric(pooling.op, x.dtype(), [&]<class T>() {
    const WindowMax<T> kernel{data_of<const T>(from), data_of<T>(values), data_of<std::int64_t>(places), windows};
    if (values.numel() == 0) return;
    launch(pooling.op, double(x.numel()), std::array{&values, &places}, std::array{&from}, kernel);
  });
  if (records(x))
    record(pooling.node, values, {&x}, [pooling, places = Saved(places), taps, layout](const Tensor& g) {
      return Gradients{add_places(pooling, g, places.get(), taps, layout)};
    });
  return {values, places};
}

// x may lack the batch dimension.
ValuesAndIndices pool_any(const Pooling& pooling, const Tensor& x, const SpatialTaps& taps, bool wants_places) {
  if (x.dim() == taps.dims + 2) return pool(pooling, x, taps, wants_places);
  const auto [values, places] = pool(pooling, x.unsqueeze(0), taps, wants_places);
  return {values.squeeze(0), places.defined() ? places.squeeze(0) : Tensor()};
}

ValuesAndIndices windows(const Pooling& pooling, const Tensor& x, int dims, const PerDimension& kernel_size,
                         const MaxPoolOptions& options, bool wants_places) {
  check_images(pooling.op, x, dims);
  const PoolWindow window{kernel_size, options.stride, options.padding, options.dilation, options.ceil_mode};
  return pool_any(pooling, x, pool_taps(pooling.op, x, dims, window), wants_places);
}

ValuesAndIndices adaptive(const Pooling& pooling, const Tensor& x, int dims, const PerDimension& output_size,
                          bool wants_places) {
  check_images(pooling.op, x, dims);
  return pool_any(pooling, x, adaptive_taps(pooling.op, x, dims, output_size), wants_places);
}

}  // namespace

Tensor max_pool1d(const Tensor& x, const PerDimension& kernel_size, const MaxPoolOptions& options) {
  return windows({"max_pool1d", "MaxPool1D"}, x, 1, kernel_size, options, false).values;
}
Tensor max_pool2d(const Tensor& x, const PerDimension& kernel_size, const MaxPoolOptions& options) {
  return windows({"max_pool2d", "MaxPool2D"}, x, 2, kernel_size, options, false).values;
}
Tensor max_pool3d(const Tensor& x, const PerDimension& kernel_size, const MaxPoolOptions& options) {
  return windows({"max_pool3d", "MaxPool3D"}, x, 3, kernel_size, options, false).values;
}

ValuesAndIndices max_pool1d_with_indices(const Tensor& x, const PerDimension& kernel_size,
                                         const MaxPoolOptions& options) {
  return windows({"max_pool1d_with_indices", "MaxPool1D"}, x, 1, kernel_size, options, true);
}
ValuesAndIndices max_pool2d_with_indices(const Tensor& x, const PerDimension& kernel_size,
                                         const MaxPoolOptions& options) {
  return windows({"max_pool2d_with_indices", "MaxPool2D"}, x, 2, kernel_size, options, true);
}
ValuesAndIndices max_pool3d_with_indices(const Tensor& x, const PerDimension& kernel_size,
                                         const MaxPoolOptions& options) {
  return windows({"max_pool3d_with_indices", "MaxPool3D"}, x, 3, kernel_size, options, true);
}

Tensor adaptive_max_pool1d(const Tensor& x, const PerDimension& output_size) {
  return adaptive({"adaptive_max_pool1d", "AdaptiveMaxPool1D"}, x, 1, output_size, false).values;
}
Tensor adaptive_max_pool2d(const Tensor& x, const PerDimension& output_size) {
  return adaptive({"adaptive_max_pool2d", "AdaptiveMaxPool2D"}, x, 2, output_size, false).values;
}
Tensor adaptive_max_pool3d(const Tensor& x, const PerDimension& output_size) {
  return adaptive({"adaptive_max_pool3d", "AdaptiveMaxPool3D"}, x, 3, output_size, false).values;
}

ValuesAndIndices adaptive_max_pool1d_with_indices(const Tensor& x, const PerDimension& output_size) {
  return adaptive({"adaptive_max_pool1d_with_indices", "AdaptiveMaxPool1D"}, x, 1, output_size, true);
}
ValuesAndIndices adaptive_max_pool2d_with_indices(const Tensor& x, const PerDimension& output_size) {
  return adaptive({"adaptive_max_pool2d_with_indices", "AdaptiveMaxPool2D"}, x, 2, output_size, true);
}
ValuesAndIndices adaptive_max_pool3d_with_indices(const Tensor& x, const PerDimension& output_size) {
  return adaptive({"adaptive_max_pool3d_with_indices", "AdaptiveMaxPool3D"}, x, 3, output_size, true);
}

}  // namespace lockstep
