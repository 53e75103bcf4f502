// group_norm: on the host it normalizes rows with layer_norm's kernel, then multiplies by the weight and adds the bias;
// on a GPU it has kernels of its own.
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/normalization.h>

#include "core/text.h"
#include "ops/affine.h"
#include "ops/autocast.h"
#include "ops/dtypes.h"
#include "ops/group_norm_kernel.h"
#include "ops/norms.h"

namespace lockstep {
namespace {

Tensor make_beside(const Tensor& x, const Shape& sizes, DType dtype) {
  return make_tensor(*x.impl()->storage->device, sizes, dtype);
}

Tensor dense_form(const Tensor& tensor) { return tensor.defined() ? tensor.detach().contiguous() : tensor; }

// The gradients, computed by differentiable operations. x and g have the shape of the op's x.
NormGradients group_gradients_by_ops(const GroupExtent& extent, double eps, const Tensor& g, const Tensor& x,
                                     const Tensor& weight, const NormNeeds& needs) {
  const auto& [batch, groups, of_group, inner] = extent;
  const Shape sizes = {batch, groups, of_group, inner}, channels = {extent.channels()};
  const auto shaped = [](const Tensor& tensor, const Shape& to) {
    return tensor.defined() ? tensor.reshape(to) : tensor;
  };
  const NormGradients of = norm_gradients_by_ops(
      g.reshape(sizes), x.reshape(sizes), shaped(weight, {1, groups, of_group, 1}), needs, {{2, 3}, {0, 3}}, true, eps);
  return {of.x.reshape(x.sizes()), shaped(of.weight, channels), shaped(of.bias, channels)};
}

NormGradients group_gradients_by_grids(const GroupExtent& extent, double eps, const Tensor& any_g, const Tensor& any_x,
                                       const Tensor& any_weight, const NormNeeds& needs) {
  const Tensor g = dense_form(any_g), x = dense_form(any_x), weight = dense_form(any_weight);
  const std::int64_t channels = extent.channels();
  const auto make = [&](bool needed, const Shape& sizes) {
    return needed ? make_beside(x, sizes, x.dtype()) : Tensor();
  };
  const NormGradients out = {make(needs.x, x.sizes()), make(needs.weight, {channels}), make(needs.bias, {channels})};
  const Tensor partial = make_beside(x, {extent.batch, 2, channels}, wide_dtype(x.dtype()));
  visit_floating("group_norm", x.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    const GroupGradientKernel<T> kernel{extent,
                                        C(eps),
                                        data_or_null<const T>(g),
                                        data_or_null<const T>(x),
                                        data_or_null<const T>(weight),
                                        data_or_null<T>(out.x),
                                        data_or_null<T>(out.weight),
                                        data_or_null<T>(out.bias),
                                        data_or_null<C>(partial),
                                        channels};
    launch("group_norm_gradient", 18 * double(x.numel()), std::array{&partial, &out.x, &out.weight, &out.bias},
           std::array{&g, &x, &weight}, kernel);
  });
  return out;
}

// group_norm on a device that launches grids (a GPU), by kernels of its own. x is not empty; weight, bias: [channels],
// or undefined.
Tensor group_norm_by_grids(const Tensor& any_x, std::int64_t groups, const Tensor& any_weight, const Tensor& any_bias,
                           double eps) {
  const std::int64_t batch = any_x.sizes()[0], channels = any_x.sizes()[1];
  const GroupExtent extent{batch, groups, channels / groups, any_x.numel() / batch / channels};
  const Tensor x = dense_form(any_x), weight = dense_form(any_weight), bias = dense_form(any_bias);
  Tensor out = make_beside(x, x.sizes(), x.dtype());
  visit_floating("group_norm", x.dtype(), [&]<class T>() {
    const GroupNormKernel<T> kernel{extent,
                                    ComputeType<T>(eps),
                                    data_or_null<const T>(x),
                                    data_or_null<const T>(weight),
                                    data_or_null<const T>(bias),
                                    data_or_null<T>(out)};
    launch("group_norm", 10 * double(x.numel()), out, std::array{&x, &weight, &bias}, kernel);
  });
  record_norm(
      "GroupNorm", out, any_x, any_weight, any_bias,
      [extent, eps](const Tensor& g, const Tensor& saved_x, const Tensor& saved_weight, const NormNeeds& needs) {
        return grad_enabled() ? group_gradients_by_ops(extent, eps, g, saved_x, saved_weight, needs)
                              : group_gradients_by_grids(extent, eps, g, saved_x, saved_weight, needs);
      });
  return out;
}

}  // namespace

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  if (const auto cast = autocast::wide())
    return group_norm(cast(x), groups, cast(weight), cast(bias), eps).to(x.dtype());
  check_floating("group_norm", x);
  if (x.dim() < 2 || groups < 1 || x.sizes()[1] % groups != 0)
    throw ShapeError(text("[group_norm] expected x [batch, channels, ...] with channels in ", groups,
                          " equal groups, got ", x.sizes()));
  const std::int64_t rows = x.sizes()[0] * groups, channels = x.sizes()[1];
  check_affine("group_norm", x, weight, {channels});
  check_affine("group_norm", x, bias, {channels});
  if (x.numel() > 0 && x.impl()->storage->device->backend.launches_grids())
    return group_norm_by_grids(x, groups, weight, bias, eps);
  const Tensor y = x.numel() == 0 ? x.clone()
                                  : normalize_rows({"group_norm", "GroupNorm", "normalize_gradients"},
                                                   x.reshape({rows, x.numel() / rows}), {}, {}, eps);
  return affine(y.reshape(x.sizes()), per_channel(weight, x.dim()), per_channel(bias, x.dim()));
}

}  // namespace lockstep
