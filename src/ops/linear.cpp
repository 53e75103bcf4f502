// Products plus an addend: linear layers and addmm.
#include "ops/linear.h"

#include <tuple>
#include <utility>

#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>

#include "core/text.h"
#include "ops/autocast.h"
#include "ops/float32_results.h"
#include "ops/product.h"
#include "ops/record.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

// The gradient of linear's weight, in `dtype`. If autograd knows the place of the gradient in a bucket, the product
// writes it there, so that no copy is needed.
Tensor weight_gradient(DType dtype, const Tensor& g, const Tensor& x) {
  if (dtype == g.dtype() || dtype == kFloat32)
    if (const Tensor place = autograd::grad_bucket_view(1); place.defined()) {
      multiply(place, g.t(), x);
      return place;
    }
  return mm_as(dtype, g.t(), x);
}

// The gradients of weight and bias in one product, both of `dtype`, if the device computes them so; else undefined.
std::pair<Tensor, Tensor> fused_parameter_gradients(DType dtype, const Tensor& g, const Tensor& x) {
  if (grad_enabled() || (dtype != g.dtype() && dtype != kFloat32)) return {};
  DeviceState& device = *g.impl()->storage->device;
  if (!device.backend.launches_grids()) return {};
  // The bias may be in the next bucket, which is to be filled when the weight's has been sent: it is copied there
  // later.
  const Tensor place = autograd::grad_bucket_view(1), of_bias = make_tensor(device, {g.sizes()[1]}, dtype);
  const Tensor of_weight = place.defined() ? place : make_tensor(device, {g.sizes()[1], x.sizes()[1]}, dtype);
  if (!multiply_and_sum_rows(of_weight, of_bias, g.t(), x)) return {};
  return {of_weight, of_bias};
}

// True if x needs only a flatten to fit the layer, for example one image per row.
bool fits_when_flat(const Tensor& x, const Shape& weight) {
  return x.dim() > 2 && weight.rank() == 2 && x.size(0) > 0 && x.numel() == x.size(0) * weight[1];
}

Tensor activated(Activation activation, const Tensor& x) {
  return activation == Activation::relu ? relu(x) : gelu(x, GeluForm::tanh);
}

// What a layer computes with: its arguments, or their casts in an autocast region.
struct Factors {
  const Tensor &x, &weight, &bias;
};

// The layer of [rows, in], recorded as a function of `given`, and computed with `used`, which has the same values in
// the dtype of the result. Each gradient is computed in the dtype of the tensor that was given: there is no conversion
// of a gradient. `used` is differentiable too, for gradients of gradients.
Tensor layer_of_rows(const Factors& given, const Factors& used, Activation activation) {
  const Tensor &x = used.x, &weight = used.weight, &bias = used.bias;
  const Shape& w = weight.sizes();
  const bool with_bias = bias.defined();
  const bool is_recorded = records(given.x, given.weight) || (with_bias && records(given.bias));
  if (is_recorded && activation != Activation::none)
    return activated(activation, layer_of_rows(given, used, Activation::none));
  const Tensor dense_bias = with_bias && !bias.is_contiguous() ? bias.detach().contiguous() : bias;
  const Tensor transposed =
      make_view(weight, {w[1], w[0]}, {weight.strides()[1], weight.strides()[0]}, weight.impl()->offset);
  Tensor out = make_tensor(*x.impl()->storage->device, {x.sizes()[0], w[0]}, x.dtype());
  multiply(out, x, transposed, {.bias = dense_bias, .activation = activation});
  if (is_recorded) {
    const auto body = [a = Saved(x), w = Saved(weight), nx = needs_grad(given.x), nw = needs_grad(given.weight),
                       nb = with_bias && needs_grad(given.bias), of_x = given.x.dtype(), of_w = given.weight.dtype(),
                       of_b = with_bias ? given.bias.dtype() : kFloat32](const Tensor& g) {
      Gradients gradients{nx ? mm_as(of_x, g, w.get()) : Tensor(), Tensor()};
      Tensor of_bias;
      if (nw && nb && of_b == of_w) std::tie(gradients[1], of_bias) = fused_parameter_gradients(of_w, g, a.get());
      if (nw && !gradients[1].defined()) gradients[1] = weight_gradient(of_w, g, a.get());
      if (nb) gradients.push_back(of_bias.defined() ? of_bias : sum_rows_as(of_b, g));
      return gradients;
    };
    if (with_bias)
      record("Addmm", out, {&given.x, &given.weight, &given.bias}, body);
    else
      record("Mm", out, {&given.x, &given.weight}, body);
  }
  return out;
}

// linear() of `given`, computed with `used`.
Tensor layer(const Factors& given, const Factors& used, Activation activation) {
  const auto& [x, weight, bias] = used;
  check_factors("linear", x, weight);
  const Shape& w = weight.sizes();
  if (w.rank() != 2 || x.dim() < 1 || x.sizes().back() != w[1])
    throw ShapeError(text("[linear] expected x [..., in] and a weight [out, in], got ", x.sizes(), " and ", w,
                          fits_when_flat(x, w) ? ": x fits when it is flat, as flatten(x, 1)" : ""));
  if (bias.defined()) {
    check_factors("linear", x, bias);
    if (bias.sizes() != Shape{w[0]})
      throw ShapeError(text("[linear] expected a bias of shape ", Shape{w[0]}, ", got ", bias.sizes()));
  }
  if (x.dim() == 2) return layer_of_rows(given, used, activation);
  Shape sizes = x.sizes();
  sizes[sizes.rank() - 1] = w[0];
  std::int64_t rows = 1;
  for (int i = 0; i < x.dim() - 1; ++i) rows *= x.sizes()[i];
  const Tensor flat = x.reshape({rows, w[1]});
  const Tensor given_flat = given.x.is_same(x) ? flat : given.x.reshape({rows, w[1]});
  return layer_of_rows({given_flat, given.weight, given.bias}, {flat, weight, bias}, activation).view(sizes);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear(x, weight, bias, Activation::none);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  const Factors given = {x, weight, bias};
  if (const auto cast = autocast::product()) return layer(given, {cast(x), cast(weight), cast(bias)}, activation);
  return layer(given, given, activation);
}

Tensor addmm(const Tensor& addend, const Tensor& a, const Tensor& b, const AddmmOptions& options) {
  if (const auto cast = autocast::product()) return addmm(cast(addend), cast(a), cast(b), options);
  check_factors("addmm", a, b);
  check_factors("addmm", addend, a);
  if (a.dim() != 2 || b.dim() != 2 || a.sizes()[1] != b.sizes()[0])
    throw ShapeError(text("[addmm] expected [m, k] and [k, n], got ", a.sizes(), " and ", b.sizes()));
  const Shape sizes = {a.sizes()[0], b.sizes()[1]};
  if (broadcast("addmm", sizes, addend.sizes()) != sizes)
    throw ShapeError(text("[addmm] expected an addend that broadcasts to ", sizes, ", got ", addend.sizes()));
  const auto [beta, alpha] = options;
  Tensor out = make_tensor(*a.impl()->storage->device, sizes, a.dtype());
  const bool is_bias = beta == 1 && addend.sizes() == Shape{sizes[1]} && addend.is_contiguous();
  if (!is_bias && beta != 0) copy_values(out, addend);
  multiply(out, a, b, {.alpha = alpha, .beta = is_bias ? 0 : beta, .bias = is_bias ? addend : Tensor()});
  if (records(addend, a, b))
    record("Addmm", out, {&addend, &a, &b},
           [x = Saved(a), y = Saved(b), like = addend.sizes(), nc = needs_grad(addend), nx = needs_grad(a),
            ny = needs_grad(b), options](const Tensor& g) {
             const Tensor scaled = options.alpha == 1 ? g : mul(g, options.alpha);
             return Gradients{nc ? sum_to(options.beta == 1 ? g : mul(g, options.beta), like) : Tensor(),
                              nx ? mm(scaled, y.get().t()) : Tensor(), ny ? mm(x.get().t(), scaled) : Tensor()};
           });
  return out;
}

}  // namespace lockstep
