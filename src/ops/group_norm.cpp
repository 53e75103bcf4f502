#include "ops/group_norm.h"

#include <span>
#include <vector>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>

#include "autograd/record.h"
#include "ops/affine.h"
#include "ops/group_norm_kernel.h"
#include "ops/wide.h"

namespace lockstep {
namespace {

using autograd::Gradients;
using autograd::needs_grad;
using autograd::record_many;
using autograd::Saved;

struct GroupProblem {
  GroupExtent extent;
  double eps;
};

struct GroupWanted {
  bool x, weight, bias;
};

struct GroupFlows {
  Tensor x, weight, bias;
};

template <class T>
T* group_data(const Tensor& tensor) {
  return tensor.defined() ? reinterpret_cast<T*>(tensor.impl()->data()) : nullptr;
}

Tensor make_beside(const Tensor& x, const Shape& sizes, DType dtype) {
  return make_tensor(*x.impl()->storage->device, sizes, dtype);
}

Tensor dense_form(const Tensor& tensor) { return tensor.defined() ? tensor.detach().contiguous() : tensor; }

// Differentiable. x and g have the shape of the op's x.
GroupFlows group_flows_by_ops(const GroupProblem& of, const Tensor& narrow_g, const Tensor& narrow_x,
                              const Tensor& weight) {
  const auto& [batch, groups, of_group, inner] = of.extent;
  const Shape sizes = {batch, groups, of_group, inner};
  const Tensor g = widened(narrow_g).reshape(sizes), x = widened(narrow_x).reshape(sizes);
  const Tensor h = weight.defined() ? g * widened(weight).reshape({1, groups, of_group, 1}) : g;
  const Tensor centered = x - mean(x, {2, 3}, true);
  const Tensor scale = rsqrt(mean(square(centered), {2, 3}, true) + of.eps), y = centered * scale;
  const DType dtype = narrow_g.dtype();
  const Tensor of_x = scale * (h - mean(h, {2, 3}, true) - y * mean(h * y, {2, 3}, true));
  const auto of_channels = [&](const Tensor& terms) {
    return sum(terms, {0, 3}).reshape({of.extent.channels()}).to(dtype);
  };
  return {of_x.reshape(narrow_x.sizes()).to(dtype), of_channels(g * y), of_channels(g)};
}

GroupFlows group_flows_by_grids(const GroupProblem& of, const Tensor& any_g, const Tensor& any_x,
                                const Tensor& any_weight, const GroupWanted& wanted) {
  const Tensor g = dense_form(any_g), x = dense_form(any_x), weight = dense_form(any_weight);
  const std::int64_t channels = of.extent.channels();
  const auto make = [&](bool is_wanted, const Shape& sizes) {
    return is_wanted ? make_beside(x, sizes, x.dtype()) : Tensor();
  };
  const GroupFlows out = {make(wanted.x, x.sizes()), make(wanted.weight, {channels}), make(wanted.bias, {channels})};
  const Tensor partial = make_beside(x, {of.extent.batch, 2, channels}, wide_dtype(x.dtype()));
  const auto or_partial = [&](const Tensor& tensor) { return tensor.defined() ? &tensor : &partial; };
  const std::array<const Tensor*, 4> written = {&partial, or_partial(out.x), or_partial(out.weight),
                                                or_partial(out.bias)};
  const std::array<const Tensor*, 3> read = {&g, &x, weight.defined() ? &weight : &x};
  visit_floating("group_norm", x.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    const GroupGradientKernel<T> kernel{of.extent,
                                        C(of.eps),
                                        group_data<const T>(g),
                                        group_data<const T>(x),
                                        group_data<const T>(weight),
                                        group_data<T>(out.x),
                                        group_data<T>(out.weight),
                                        group_data<T>(out.bias),
                                        group_data<C>(partial),
                                        channels};
    launch("group_norm_gradient", 18 * double(x.numel()), written, read, kernel);
  });
  return out;
}

}  // namespace

Tensor group_norm_by_grids(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  const std::int64_t batch = x.sizes()[0], channels = x.sizes()[1];
  const GroupProblem problem{{batch, groups, channels / groups, x.numel() / batch / channels}, eps};
  const Tensor from = dense_form(x), by = dense_form(weight), plus = dense_form(bias);
  Tensor out = make_beside(x, x.sizes(), x.dtype());
  const std::array<const Tensor*, 3> read = {&from, by.defined() ? &by : &from, plus.defined() ? &plus : &from};
  visit_floating("group_norm", x.dtype(), [&]<class T>() {
    const GroupNormKernel<T> kernel{problem.extent,          ComputeType<T>(eps),       group_data<const T>(from),
                                    group_data<const T>(by), group_data<const T>(plus), group_data<T>(out)};
    launch("group_norm", 10 * double(x.numel()), out, read, kernel);
  });
  std::vector<Tensor> inputs = {x};
  if (weight.defined()) inputs.push_back(weight);
  if (bias.defined()) inputs.push_back(bias);
  if (!autograd::any_records(inputs)) return out;
  const GroupWanted wanted = {needs_grad(x), weight.defined() && needs_grad(weight),
                              bias.defined() && needs_grad(bias)};
  const bool weighted = weight.defined(), biased = bias.defined();
  record_many("GroupNorm", std::span(&out, 1), inputs,
              [problem, wanted, weighted, biased, saved_x = Saved(x),
               saved_weight = weighted ? Saved(weight) : Saved()](const Gradients& all) {
                const Tensor v = saved_x.get(), w = saved_weight.get();
                const GroupFlows flows = grad_enabled() ? group_flows_by_ops(problem, all[0], v, w)
                                                        : group_flows_by_grids(problem, all[0], v, w, wanted);
                Gradients gradients = {wanted.x ? flows.x : Tensor()};
                if (weighted) gradients.push_back(wanted.weight ? flows.weight : Tensor());
                if (biased) gradients.push_back(wanted.bias ? flows.bias : Tensor());
                return gradients;
              });
  return out;
}

}  // namespace lockstep
