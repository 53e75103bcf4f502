#include "ops/conv/convolution.h"

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>

#include "ops/conv/composed.h"
#include "ops/fused.h"
#include "ops/images.h"
#include "ops/record.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

bool is_narrow(DType dtype) { return size_of(dtype) < size_of(kFloat32); }

FusedOp described(FusedKind kind, const char* name, const Shape& weight, const Shape& y, const ConvGeometry& geometry) {
  return {.kind = kind,
          .name = name,
          .flops = 2 * double(y.elements()) * double(weight.elements()) / double(weight[0]),
          .stride = geometry.stride,
          .padding = geometry.padding,
          .dilation = geometry.dilation,
          .groups = geometry.groups};
}

Tensor new_tensor(const Tensor& like, const Shape& sizes) {
  return make_tensor(*like.impl()->storage->device, sizes, like.dtype());
}

// True if x should be channels-last in a convolution: if its device prefers this layout, or x already has it.
bool go_channels_last(const Tensor& x) {
  return x.impl()->storage->device->backend.prefers_channels_last(x.dtype()) ||
         is_channels_last(x.sizes(), x.strides());
}
Tensor laid_out(const Tensor& x) { return go_channels_last(x) ? as_images(x) : x; }
Tensor new_images(const Tensor& like, const Shape& sizes) {
  return go_channels_last(like) ? make_images(*like.impl()->storage->device, sizes, like.dtype())
                                : new_tensor(like, sizes);
}

// The convolution and its two gradients, not recorded. float64 is always composed, since no library supports it. 16-bit
// types become float32 if the device declines them.

Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& geometry) {
  const Shape sizes = convolution_sizes(x.sizes(), weight.sizes(), geometry);
  if (x.numel() == 0 || weight.numel() == 0 || sizes.elements() == 0) {
    Tensor y = new_tensor(x, sizes);
    fill_values(y, 0);
    if (bias.defined()) y = y + channels_of(bias, y.dim());
    return y;
  }
  if (x.dtype() != kFloat64) {
    Tensor y = new_images(x, sizes);
    const FusedOp op = described(FusedKind::convolution, "convolution", weight.sizes(), sizes, geometry);
    if (run_fused(op, {{laid_out(x)}, {weight.contiguous()}, {bias}, {y, true}})) return y;
    if (is_narrow(x.dtype()))
      return forward(x.to(kFloat32), weight.to(kFloat32), bias.defined() ? bias.to(kFloat32) : bias, geometry)
          .to(x.dtype());
  }
  Tensor y = new_tensor(x, sizes);
  composed::convolution(x, weight, bias, geometry, y);
  return y;
}

Tensor input_gradient(const Tensor& g, const Tensor& weight, const Shape& sizes, const ConvGeometry& geometry) {
  if (g.numel() == 0 || weight.numel() == 0 || sizes.elements() == 0) {
    Tensor x = new_tensor(g, sizes);
    fill_values(x, 0);
    return x;
  }
  if (g.dtype() != kFloat64) {
    Tensor x = new_images(g, sizes);
    const FusedOp op = described(FusedKind::convolution_input_gradient, "convolution_input_gradient", weight.sizes(),
                                 g.sizes(), geometry);
    if (run_fused(op, {{laid_out(g)}, {weight.contiguous()}, {x, true}})) return x;
    if (is_narrow(g.dtype())) return input_gradient(g.to(kFloat32), weight.to(kFloat32), sizes, geometry).to(g.dtype());
  }
  Tensor x = new_tensor(g, sizes);
  composed::convolution_input_gradient(g, weight, geometry, x);
  return x;
}

Tensor weight_gradient(const Tensor& x, const Tensor& g, const Shape& sizes, const ConvGeometry& geometry,
                       const Tensor& place) {
  Tensor weight = place.defined() ? place : new_tensor(x, sizes);
  if (x.numel() == 0 || g.numel() == 0 || sizes.elements() == 0) {
    fill_values(weight, 0);
    return weight;
  }
  if (x.dtype() != kFloat64) {
    const FusedOp op =
        described(FusedKind::convolution_weight_gradient, "convolution_weight_gradient", sizes, g.sizes(), geometry);
    if (run_fused(op, {{laid_out(x)}, {laid_out(g)}, {weight, true}})) return weight;
    if (is_narrow(x.dtype())) {
      copy_values(weight, weight_gradient(x.to(kFloat32), g.to(kFloat32), sizes, geometry, {}));
      return weight;
    }
  }
  composed::convolution_weight_gradient(x, g, geometry, weight);
  return weight;
}

// Calls f, which calls forward(), input_gradient() or weight_gradient(), without recording the operations inside. The
// caller records one node for the whole.
template <class F>
Tensor unrecorded(const F& f) {
  const NoGrad guard;
  return f();
}

}  // namespace

Shape convolution_sizes(const Shape& x, const Shape& weight, const ConvGeometry& geometry) {
  Shape sizes = {x[0], weight[0]};
  for (int d = 0; d < x.rank() - 2; ++d) {
    const std::int64_t reach = geometry.dilation[d] * (weight[d + 2] - 1) + 1;
    sizes.push_back((x[d + 2] + 2 * geometry.padding[d] - reach) / geometry.stride[d] + 1);
  }
  return sizes;
}

Tensor convolution(const Tensor& given, const Tensor& weight, const Tensor& bias, const ConvGeometry& geometry) {
  // Converts the layout of a network's input once, and keeps the result for backward.
  const Tensor x = given.dtype() == kFloat32 && !needs_grad(given) && given.numel() > 0 ? laid_out(given) : given;
  Tensor y = unrecorded([&] { return forward(x, weight, bias, geometry); });
  const bool with_bias = bias.defined();
  if (!records(x, weight) && !(with_bias && records(bias))) return y;
  const auto body = [a = Saved(x), w = Saved(weight), nx = needs_grad(x), nw = needs_grad(weight),
                     nb = with_bias && needs_grad(bias), geometry](const Tensor& g) {
    const Tensor p = a.get(), q = w.get();
    Gradients gradients{
        nx ? convolution_input_gradient(g, q, p.sizes(), geometry) : Tensor(),
        nw ? convolution_weight_gradient(p, g, q.sizes(), geometry, autograd::grad_bucket_view(1)) : Tensor()};
    if (nb) gradients.push_back(sum(g, all_but_channels(g.dim())));
    return gradients;
  };
  if (with_bias)
    record("Convolution", y, {&x, &weight, &bias}, body);
  else
    record("Convolution", y, {&x, &weight}, body);
  return y;
}

Tensor convolution_input_gradient(const Tensor& g, const Tensor& weight, const Shape& sizes,
                                  const ConvGeometry& geometry) {
  Tensor x = unrecorded([&] { return input_gradient(g, weight, sizes, geometry); });
  if (records(g, weight))
    record("ConvolutionInputGradient", x, {&g, &weight},
           [a = Saved(g), w = Saved(weight), ng = needs_grad(g), nw = needs_grad(weight), geometry](const Tensor& h) {
             const Tensor p = a.get(), q = w.get();
             return Gradients{
                 ng ? convolution(h, q, {}, geometry) : Tensor(),
                 nw ? convolution_weight_gradient(h, p, q.sizes(), geometry, autograd::grad_bucket_view(1)) : Tensor()};
           });
  return x;
}

Tensor convolution_weight_gradient(const Tensor& x, const Tensor& g, const Shape& sizes, const ConvGeometry& geometry,
                                   const Tensor& place) {
  const bool recorded = records(x, g);
  Tensor weight = unrecorded([&] { return weight_gradient(x, g, sizes, geometry, recorded ? Tensor() : place); });
  if (recorded)
    record("ConvolutionWeightGradient", weight, {&x, &g},
           [a = Saved(x), b = Saved(g), nx = needs_grad(x), ng = needs_grad(g), geometry](const Tensor& h) {
             const Tensor p = a.get(), q = b.get();
             return Gradients{nx ? convolution_input_gradient(q, h, p.sizes(), geometry) : Tensor(),
                              ng ? convolution(p, h, {}, geometry) : Tensor()};
           });
  return weight;
}

}  // namespace lockstep
