#include "optim/places.h"

#include <algorithm>

#include "core/text.h"

namespace lockstep::optim {
namespace {

bool fits(const TensorImpl& gradient, const TensorImpl& tensor) {
  return gradient.storage->device == tensor.storage->device && gradient.dtype == tensor.dtype &&
         gradient.sizes == tensor.sizes;
}

}  // namespace

void settle(std::span<const Tensor> parameters) {
  std::vector<autograd::SinkLeaves> models;
  for (const Tensor& parameter : parameters)
    if (place_count(parameter) > 1) autograd::add_leaf(models, parameter);
  for (const auto& [sink, leaves] : models) sink->settle();
}

Tensor gradient_in(const char* op, std::size_t index, const Tensor& parameter, std::size_t k) {
  const Tensor& there = place(parameter, k);
  const Tensor* const gradient = gradient_of(there);
  if (!gradient)
    throw AutogradError(text("[", op, "] expected a gradient of parameter ", index, " on ", there.device(), " as on ",
                             parameter.device(), ", got none"));
  if (!fits(*gradient->impl(), *there.impl()))
    throw AutogradError(text("[", op, "] expected a gradient of parameter ", index, " of shape ", there.sizes(), ", ",
                             there.dtype(), ", on ", there.device(), ", got ", gradient->sizes(), ", ",
                             gradient->dtype(), ", on ", gradient->device()));
  return gradient->impl()->contiguous ? *gradient : gradient->contiguous();
}

std::vector<TensorGroup> by_device_and_dtype(std::span<const Tensor> tensors) {
  std::vector<TensorGroup> groups;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorImpl& impl = *tensors[i].impl();
    const auto same = [&](const TensorGroup& g) { return g.device == impl.storage->device && g.dtype == impl.dtype; };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(group, {impl.storage->device, impl.dtype, {}, {}});
    group->tensors.push_back(&impl);
    group->positions.push_back(i);
  }
  return groups;
}

std::vector<Tensor> gradients_everywhere(const char* op, std::span<const Tensor> parameters) {
  for (const Tensor& parameter : parameters) impl_of(op, parameter);
  settle(parameters);
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!gradient_of(parameters[i])) continue;
    for (std::size_t k = 0; k < place_count(parameters[i]); ++k) {
      const Tensor& there = place(parameters[i], k);
      autograd::Meta& meta = *autograd::meta_of(there);
      meta.grad = gradient_in(op, i, parameters[i], k);
      meta.scattered = meta.share.has_value();
      gradients.push_back(in_share(meta.grad, there));
    }
  }
  return gradients;
}

}  // namespace lockstep::optim
