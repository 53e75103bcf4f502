#include "ops/product.h"

#include <algorithm>

#include "core/text.h"
#include "kernels/launch.h"

namespace lockstep {
namespace {

// If one backend call cannot cover the batch, because its matrices are not evenly spaced, there is one call for each
// index of the outer dimensions. If that would be more calls than this, the factors are copied to a dense batch
// instead.
constexpr std::int64_t kMostCalls = 16;

// Matrices in the form that the backend takes: rows `pitch` elements apart, or their transpose.
struct Matrices {
  Tensor tensor;
  std::int64_t pitch;
  bool transposed;
};

Matrices matrices_of(const Tensor& x) {
  const TensorImpl& impl = *x.impl();
  const int r = impl.sizes.rank() - 2, c = r + 1;
  const std::int64_t rows = impl.sizes[r], columns = impl.sizes[c];
  if ((impl.strides[c] == 1 || columns == 1) && (impl.strides[r] >= columns || rows == 1))
    return {x, rows == 1 ? std::max<std::int64_t>(columns, 1) : impl.strides[r], false};
  if ((impl.strides[r] == 1 || rows == 1) && (impl.strides[c] >= rows || columns == 1))
    return {x, columns == 1 ? std::max<std::int64_t>(rows, 1) : impl.strides[c], true};
  return {x.detach().contiguous(), std::max<std::int64_t>(columns, 1), false};
}

// The product of the first matrices.
Matmul product_of(const Tensor& out, const Matrices& a, const Matrices& b, const ProductOptions& options) {
  const TensorImpl& to = *out.impl();
  const DType factors = a.tensor.dtype();
  const int last = to.sizes.rank() - 1;
  return {.dtype = factors,
          .float32_output = to.dtype != factors,
          .m = to.sizes[last - 1],
          .n = to.sizes[last],
          .k = a.tensor.sizes().back(),
          .a = a.tensor.impl()->data(),
          .b = b.tensor.impl()->data(),
          .c = to.data(),
          .bias = options.bias.defined() ? options.bias.impl()->data() : nullptr,
          .lda = a.pitch,
          .ldb = b.pitch,
          .ldc = to.sizes[last],
          .transpose_a = a.transposed,
          .transpose_b = b.transposed,
          .alpha = options.alpha,
          .beta = options.beta,
          .activation = options.activation};
}

// The strides of the leading dimensions, broadcast to those of `out`. For a factor without elements, which is never
// read, they are 0, so that it does not make more calls necessary.
Shape batch_strides(const Tensor& x, const Shape& out) {
  if (x.numel() == 0) return Shape::filled(out.rank() - 2, 0);
  Shape strides = broadcast_strides(*x.impl(), out);
  strides.erase(strides.rank() - 1);
  strides.erase(strides.rank() - 1);
  return strides;
}

Geometry<3> batches_of(const Tensor& out, const Tensor& a, const Tensor& b) {
  Geometry<3> batches;
  batches.sizes = out.sizes();
  batches.sizes.erase(batches.sizes.rank() - 1);
  batches.sizes.erase(batches.sizes.rank() - 1);
  batches.strides = {batch_strides(out, out.sizes()), batch_strides(a, out.sizes()), batch_strides(b, out.sizes())};
  collapse(batches);
  return batches;
}

Tensor spread(const Tensor& x, const Shape& out) {
  Shape sizes = out;
  for (int i = 1; i <= 2; ++i) sizes[sizes.rank() - i] = x.sizes()[x.dim() - i];
  return x.detach().expand(sizes).contiguous();
}

}  // namespace

void check_factors(const char* op, const Tensor& a, const Tensor& b) {
  check_same_device(op, a, b);
  if (!is_floating(a.dtype()) || a.dtype() != b.dtype())
    throw DTypeError(text("[", op, "] expected one floating dtype, got ", a.dtype(), " and ", b.dtype()));
}

void multiply(const Tensor& out, const Tensor& a, const Tensor& b, const ProductOptions& options) {
  const TensorImpl& to = *out.impl();
  if (to.numel == 0) return;
  const OperationEnd end;
  const Matrices left = matrices_of(a), right = matrices_of(b);
  DeviceState& device = *to.storage->device;
  const int last = to.sizes.rank() - 1;
  Matmul product = product_of(out, left, right, options);
  const StreamHandle stream = current_stream_handle(device);
  const auto use_all = [&] {
    for (const Tensor* used : {&out, &left.tensor, &right.tensor, &options.bias})
      if (used->defined()) use_on(stream, *used);
  };
  if (last == 1) {
    use_all();
    device.backend.matmul(stream, product);
    return;
  }

  const Geometry<3> batches = batches_of(out, left.tensor, right.tensor);
  const int inner = batches.sizes.rank() - 1;
  std::int64_t calls = 1;
  for (int d = 0; d < inner; ++d) calls *= batches.sizes[d];
  if (calls > kMostCalls) return multiply(out, spread(a, to.sizes), spread(b, to.sizes), options);
  use_all();
  if (inner >= 0) {
    product.batch = batches.sizes[inner];
    product.stride_c = batches.strides[0][inner];
    product.stride_a = batches.strides[1][inner];
    product.stride_b = batches.strides[2][inner];
  }
  const std::int64_t bytes[3] = {std::int64_t(size_of(to.dtype)), std::int64_t(size_of(a.dtype())),
                                 std::int64_t(size_of(b.dtype()))};
  for (std::int64_t call = 0; call < calls; ++call) {
    std::int64_t at[3] = {}, rest = call;
    for (int d = inner - 1; d >= 0; --d) {
      const std::int64_t index = rest % batches.sizes[d];
      rest /= batches.sizes[d];
      for (int n = 0; n < 3; ++n) at[n] += index * batches.strides[std::size_t(n)][d] * bytes[n];
    }
    Matmul one = product;
    one.c = static_cast<std::byte*>(product.c) + at[0];
    one.a = static_cast<const std::byte*>(product.a) + at[1];
    one.b = static_cast<const std::byte*>(product.b) + at[2];
    device.backend.matmul(stream, one);
  }
}

bool multiply_and_sum_rows(const Tensor& out, const Tensor& sums, const Tensor& a, const Tensor& b) {
  DeviceState& device = *out.impl()->storage->device;
  if (!device.backend.launches_grids() || out.numel() == 0 || a.sizes().back() == 0) return false;
  const OperationEnd end;
  const Matrices left = matrices_of(a), right = matrices_of(b);
  Matmul product = product_of(out, left, right, {});
  product.row_sums = sums.impl()->data();
  const StreamHandle stream = current_stream_handle(device);
  if (!device.backend.has_row_sums(stream, product)) return false;
  for (const Tensor* const used : {&out, &sums, &left.tensor, &right.tensor}) use_on(stream, *used);
  device.backend.matmul(stream, product);
  return true;
}

}  // namespace lockstep
