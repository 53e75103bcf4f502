#include "optim/replicas.h"

#include <algorithm>

#include "autograd/step_leaf.h"
#include "core/text.h"

namespace lockstep::optim {
namespace {

bool fits(const TensorImpl& gradient, const TensorImpl& tensor) {
  return gradient.storage->device == tensor.storage->device && gradient.dtype == tensor.dtype &&
         gradient.sizes == tensor.sizes;
}

}  // namespace

void check_defined(const char* op, std::span<const Tensor> parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!parameters[i].defined())
      throw InvalidArgument(text('[', op, "] expected parameter ", i, " to be a tensor, got an undefined one"));
}

// Skips undefined parameters: callers use this while they report one as an error.
void add_devices(std::vector<Device>& devices, std::span<const Tensor> parameters) {
  for (const Tensor& parameter : parameters)
    for (std::size_t k = 0; parameter.defined() && k < replica_count(parameter); ++k)
      if (const Device device = replica(parameter, k).device(); std::ranges::find(devices, device) == devices.end())
        devices.push_back(device);
}

void reconcile(std::span<const Tensor> parameters) {
  for (const Tensor& parameter : parameters) {
    autograd::use_in_step(parameter);
    if (const autograd::Replica* const own = autograd::replica_of(parameter)) own->parameter->reconcile();
  }
}

ShardUpdate::ShardUpdate(std::span<const Tensor> parameters) {
  for (const Tensor& parameter : parameters) {
    const autograd::Replica* const replica = autograd::replica_of(parameter);
    if (!replica || !(replica->parameter->is_sharded() || replica->parameter->has_other_processes())) continue;
    const auto model = std::ranges::find_if(
        models_, [&](const auto& others) { return others.front()->listener() == replica->parameter->listener(); });
    (model == models_.end() ? models_.emplace_back() : *model).push_back(replica->parameter);
  }
  std::size_t begun = 0;
  try {
    for (; begun < models_.size(); ++begun) models_[begun].front()->begin_update();
  } catch (...) {
    for (std::size_t i = 0; i <= begun; ++i) models_[i].front()->abandon_update(false);
    throw;
  }
}

ShardUpdate::~ShardUpdate() {
  for (const auto& model : models_) model.front()->abandon_update(true);
}

void ShardUpdate::all_gather() {
  for (; !models_.empty(); models_.pop_back())
    if (models_.back().front()->is_sharded()) models_.back().front()->all_gather(models_.back());
}

std::vector<autograd::ReplicatedParameter*> divided_models(std::span<const Tensor> parameters) {
  std::vector<autograd::ReplicatedParameter*> models;
  for (const Tensor& parameter : parameters) {
    if (!shard_layout_of(parameter)) continue;
    autograd::ReplicatedParameter* const own = autograd::replica_of(parameter)->parameter;
    if (std::ranges::none_of(models, [&](const auto* other) { return other->listener() == own->listener(); }))
      models.push_back(own);
  }
  return models;
}

std::vector<std::shared_ptr<CallLog>> call_logs(std::span<const Tensor> parameters) {
  std::vector<std::shared_ptr<CallLog>> logs;
  for (const Tensor& parameter : parameters)
    if (const autograd::Replica* const own = autograd::replica_of(parameter))
      if (const auto& log = own->parameter->calls(); log && std::ranges::find(logs, log) == logs.end())
        logs.push_back(log);
  return logs;
}

void note_call(std::span<const Tensor> parameters, const std::function<std::string()>& call) {
  for (const auto& log : call_logs(parameters)) log->add(call());
}

Tensor gradient_in(const char* op, std::size_t index, const Tensor& parameter, std::size_t k) {
  const Tensor& there = replica(parameter, k);
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

std::vector<Tensor> gradients_of_all_replicas(const char* op, std::span<const Tensor> parameters) {
  check_defined(op, parameters);
  reconcile(parameters);
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!gradient_of(parameters[i])) continue;
    for (std::size_t k = 0; k < replica_count(parameters[i]); ++k) {
      const Tensor& there = replica(parameters[i], k);
      Tensor& gradient = autograd::meta_of(there)->grad;
      gradient = gradient_in(op, i, parameters[i], k);
      gradients.push_back(in_shard(gradient, there));
    }
    if (const autograd::Replica* const own = autograd::replica_of(parameters[i])) own->parameter->gradient_changed();
  }
  return gradients;
}

}  // namespace lockstep::optim
