#include <lockstep/ops/linalg.h>

#include <lockstep/ops/reduce.h>

#include "autograd/node.h"
#include "core/text.h"
#include "tensor/kernels/launch.h"

namespace lockstep {
namespace {

using autograd::Gradients;
using autograd::needs_grad;
using autograd::record;
using autograd::records;
using autograd::Saved;

// A matrix as the backend takes it: rows `pitch` apart, or the transpose of that.
struct Matrix {
  Tensor tensor;
  std::int64_t pitch;
  bool transposed;
};

Matrix matrix_of(const Tensor& x) {
  const TensorImpl& impl = *x.impl();
  const std::int64_t rows = impl.sizes[0], columns = impl.sizes[1];
  if ((impl.strides[1] == 1 || columns == 1) && (impl.strides[0] >= columns || rows == 1))
    return {x, rows == 1 ? std::max<std::int64_t>(columns, 1) : impl.strides[0], false};
  if ((impl.strides[0] == 1 || rows == 1) && (impl.strides[1] >= rows || columns == 1))
    return {x, columns == 1 ? std::max<std::int64_t>(rows, 1) : impl.strides[1], true};
  return {x.detach().contiguous(), std::max<std::int64_t>(columns, 1), false};
}

// op(a) [m, k] times op(b) [k, n] plus bias [n], without a gradient.
Tensor multiply(const Tensor& a, const Tensor& b, const Tensor& bias) {
  DeviceState& device = *a.impl()->storage->device;
  Tensor out = make_tensor(device, {a.sizes()[0], b.sizes()[1]}, a.dtype());
  if (out.numel() == 0) return out;
  const Matrix left = matrix_of(a), right = matrix_of(b);
  const StreamHandle stream = current_stream_handle(device);
  for (const Tensor* used : {&left.tensor, &right.tensor, &bias})
    if (used->defined()) use_on(stream, *used);
  device.backend.matmul(stream, {.dtype = a.dtype(),
                                 .m = a.sizes()[0],
                                 .n = b.sizes()[1],
                                 .k = a.sizes()[1],
                                 .a = left.tensor.impl()->data(),
                                 .b = right.tensor.impl()->data(),
                                 .c = out.impl()->data(),
                                 .bias = bias.defined() ? bias.impl()->data() : nullptr,
                                 .lda = left.pitch,
                                 .ldb = right.pitch,
                                 .ldc = out.sizes()[1],
                                 .transpose_a = left.transposed,
                                 .transpose_b = right.transposed});
  return out;
}

void check_matrices(const char* op, const Tensor& a, const Tensor& b) {
  check_same_device(op, a, b);
  if (!is_floating(a.dtype()) || a.dtype() != b.dtype())
    throw DTypeError(text("[", op, "] expected one floating dtype, got ", a.dtype(), " and ", b.dtype()));
}

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) {
  check_matrices("mm", a, b);
  if (a.dim() != 2 || b.dim() != 2 || a.sizes()[1] != b.sizes()[0])
    throw ShapeError(text("[mm] expected [m, k] and [k, n], got ", a.sizes(), " and ", b.sizes()));
  Tensor out = multiply(a, b, {});
  if (records(a, b))
    record("Mm", out, {&a, &b}, [x = Saved(a), y = Saved(b), nx = needs_grad(a), ny = needs_grad(b)](const Tensor& g) {
      return Gradients{nx ? mm(g, y.get().t()) : Tensor(), ny ? mm(x.get().t(), g) : Tensor()};
    });
  return out;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_matrices("linear", x, weight);
  const Shape& w = weight.sizes();
  if (w.rank() != 2 || x.dim() < 1 || x.sizes().back() != w[1])
    throw ShapeError(text("[linear] expected x [..., in] and a weight [out, in], got ", x.sizes(), " and ", w));
  if (bias.defined()) {
    check_matrices("linear", x, bias);
    if (bias.sizes() != Shape{w[0]})
      throw ShapeError(text("[linear] expected a bias of shape ", Shape{w[0]}, ", got ", bias.sizes()));
  }
  if (x.dim() != 2) {
    Shape sizes = x.sizes();
    sizes[sizes.rank() - 1] = w[0];
    std::int64_t rows = 1;
    for (int i = 0; i < x.dim() - 1; ++i) rows *= x.sizes()[i];
    return linear(x.reshape({rows, w[1]}), weight, bias).view(sizes);
  }
  const Tensor dense_bias = bias.defined() && !bias.is_contiguous() ? bias.contiguous() : bias;
  const Tensor transposed = make_view(weight, {w[1], w[0]}, {weight.strides()[1], weight.strides()[0]}, weight.impl()->offset);
  Tensor out = multiply(x, transposed, dense_bias);
  const bool with_bias = bias.defined();
  if (records(x, weight) || (with_bias && records(bias))) {
    const auto body = [a = Saved(x), w = Saved(weight), nx = needs_grad(x), nw = needs_grad(weight),
                       nb = with_bias && needs_grad(bias)](const Tensor& g) {
      Gradients gradients{nx ? mm(g, w.get()) : Tensor(), nw ? mm(g.t(), a.get()) : Tensor()};
      if (nb) gradients.push_back(sum(g, {0}));
      return gradients;
    };
    if (with_bias)
      record("Addmm", out, {&x, &weight, &bias}, body);
    else
      record("Mm", out, {&x, &weight}, body);
  }
  return out;
}

}  // namespace lockstep
