#include <lockstep/ops/fold.h>

#include <lockstep/kernels/visit.h>

#include "core/text.h"
#include "kernels/window/window_columns.h"
#include "ops/dtypes.h"
#include "ops/record.h"
#include "ops/window/planes.h"

namespace lockstep {
namespace {

Tensor windows_added(const Tensor& columns, const SpatialTaps& taps);

// The windows over images of the given sizes.
SpatialTaps column_taps(const char* op, const Shape& images, const PerDimension& kernel_size,
                        const FoldOptions& options) {
  constexpr std::int64_t kMost = std::int64_t(1) << 31;  // products of two numbers below it fit 64 bits
  const int dims = images.rank();
  const Shape size = kernel_size.over(op, "kernel_size", dims, 1), stride = options.stride.over(op, "stride", dims, 1),
              padding = options.padding.over(op, "padding", dims, 0),
              dilation = options.dilation.over(op, "dilation", dims, 1);
  SpatialTaps taps;
  taps.dims = dims;
  for (int d = 0; d < dims; ++d) {
    for (const std::int64_t number : {size[d], stride[d], padding[d], dilation[d]})
      if (number >= kMost) throw InvalidArgument(text("[", op, "] expected numbers below 2^31, got ", number));
    Taps& axis = taps.axes[std::size_t(d)];
    axis = {.in = images[d], .size = size[d], .stride = stride[d], .padding = padding[d], .dilation = dilation[d]};
    const std::int64_t room = axis.in + 2 * padding[d] - dilation[d] * (size[d] - 1) - 1;
    if (room < 0) throw ShapeError(text("[", op, "] expected windows ", size, " that fit the images, got ", images));
    axis.out = room / stride[d] + 1;
  }
  return taps;
}

// Elements in a window, and number of windows.
struct ColumnSizes {
  std::int64_t elements, windows;
};

ColumnSizes column_sizes(const char* op, const SpatialTaps& taps) {
  Shape elements, windows;
  for (int d = 0; d < taps.dims; ++d) {
    elements.push_back(taps.axes[std::size_t(d)].size);
    windows.push_back(taps.axes[std::size_t(d)].out);
  }
  return {checked_elements(op, elements), checked_elements(op, windows)};
}

WindowColumns columns_over(const Shape& images, const SpatialTaps& taps) {
  return {planes_over(images, taps, ImageLayout::row_major)};
}

// x: [N, C, spatial...].
Tensor columns_of_windows(const Tensor& x, const SpatialTaps& taps) {
  const Tensor from = dense_in(ImageLayout::row_major, x);
  const ColumnSizes sizes = column_sizes("unfold", taps);
  const Shape columns = {x.sizes()[0], x.sizes()[1], sizes.elements, sizes.windows};
  checked_elements("unfold", columns);
  Tensor out = make_tensor(*x.impl()->storage->device, {columns[0], columns[1] * columns[2], columns[3]}, x.dtype());
  if (out.numel() > 0)
    visit_bits(x.dtype(), [&]<class T>() {
      const Im2Col<T> kernel{reinterpret_cast<const T*>(from.impl()->data()), reinterpret_cast<T*>(out.impl()->data()),
                             columns_over(x.sizes(), taps)};
      launch("unfold", 0, std::array{&out}, std::array{&from}, kernel);
    });
  if (records(x)) record("Im2Col", out, {&x}, [taps](const Tensor& g) { return Gradients{windows_added(g, taps)}; });
  return out;
}

// columns: [N, C * elements, windows].
Tensor windows_added(const Tensor& columns, const SpatialTaps& taps) {
  const Tensor from = columns.detach().contiguous();
  Shape images = {columns.sizes()[0], columns.sizes()[1] / column_sizes("fold", taps).elements};
  for (int d = 0; d < taps.dims; ++d) images.push_back(taps.axes[std::size_t(d)].in);
  Tensor out = make_tensor(*columns.impl()->storage->device, images, columns.dtype());
  if (out.numel() > 0)
    visit_floating("fold", columns.dtype(), [&]<class T>() {
      const Col2Im<T> kernel{reinterpret_cast<const T*>(from.impl()->data()), reinterpret_cast<T*>(out.impl()->data()),
                             columns_over(images, taps)};
      launch("fold", double(from.numel()), std::array{&out}, std::array{&from}, kernel);
    });
  if (records(columns))
    record("Col2Im", out, {&columns}, [taps](const Tensor& g) { return Gradients{columns_of_windows(g, taps)}; });
  return out;
}

}  // namespace

Tensor unfold(const Tensor& x, const PerDimension& kernel_size, const FoldOptions& options) {
  return on_batch("unfold", x, 2, [&](const Tensor& batch) {
    const Shape& sizes = batch.sizes();
    return columns_of_windows(batch, column_taps("unfold", {sizes[2], sizes[3]}, kernel_size, options));
  });
}

Tensor fold(const Tensor& x, const Shape& output_size, const PerDimension& kernel_size, const FoldOptions& options) {
  check_floating("fold", x);
  const int dims = output_size.rank();
  if (dims < 1 || dims > 3)
    throw ShapeError(text("[fold] expected an output_size of one to three sizes, got ", output_size));
  for (const std::int64_t size : output_size)
    if (size < 1 || size >= std::int64_t(1) << 31)
      throw ShapeError(text("[fold] expected an output_size from 1 to 2^31 - 1, got ", output_size));
  const SpatialTaps taps = column_taps("fold", output_size, kernel_size, options);
  const auto [elements, windows] = column_sizes("fold", taps);
  const Shape& sizes = x.sizes();
  const int rank = sizes.rank();
  if ((rank != 2 && rank != 3) || sizes[rank - 1] != windows || sizes[rank - 2] % elements != 0 || sizes[rank - 2] == 0)
    throw ShapeError(text("[fold] expected x [N, C * ", elements, ", ", windows, "] or without N, got ", sizes));
  return rank == 3 ? windows_added(x, taps) : windows_added(x.unsqueeze(0), taps).squeeze(0);
}

}  // namespace lockstep
