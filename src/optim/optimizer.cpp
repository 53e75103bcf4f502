#include <lockstep/optim/optimizer.h>

#include <unordered_set>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/runtime/drain.h>
#include <lockstep/tensor/creation.h>

#include "autograd/step_leaf.h"
#include "core/context.h"
#include "core/text.h"
#include "optim/captured_optimizer.h"
#include "optim/optimizer_impl.h"
#include "tensor/overlap.h"

namespace lockstep::optim {

namespace {

struct Zero {
  template <class T>
  LOCKSTEP_HD void operator()(T& g) const {
    g = 0;
  }
};

// A parameter to update: one that has a gradient.
struct ParameterUpdate {
  std::size_t index;              // in its group
  std::vector<Tensor> gradients;  // each replica's shard
};

// Returns the batch for this device, dtype, step count, scalar state and new slots; makes it if there is none.
Batch& batch_for(std::vector<Batch>& batches, DeviceState& device, DType dtype, const ParameterState& state,
                 unsigned new_slots) {
  for (Batch& batch : batches)
    if (batch.device == &device && batch.dtype == dtype && batch.step == double(state.step) &&
        batch.scalar_state == state.scalar_state && batch.new_slots == new_slots)
      return batch;
  return batches.emplace_back(Batch{&device, dtype, double(state.step), state.scalar_state, new_slots, nullptr, {}});
}

}  // namespace

Optimizer::Optimizer(const char* name) : impl_(std::make_shared<Impl>(Impl{.name = name})) {}
Optimizer::~Optimizer() = default;

void Optimizer::add_parameters(std::vector<Tensor> parameters) {
  const char* const name = impl_->name;
  if (parameters.empty()) throw InvalidArgument(text("[", name, "] expected at least one parameter, got none"));
  std::unordered_set<const TensorImpl*> seen;
  std::size_t index = 0;
  for (const ParameterGroup& group : impl_->groups)
    for (const Tensor& parameter : group.parameters) seen.insert(parameter.impl()), ++index;
  const std::size_t first = index;
  for (const Tensor& parameter : parameters) {
    if (!parameter.defined())
      throw InvalidArgument(text("[", name, "] expected parameter ", index,
                                 " to have a shape, got an undefined tensor: "
                                 "run a batch through lazy modules first"));
    if (!is_floating(parameter.dtype()))
      throw DTypeError(
          text("[", name, "] expected parameter ", index, " of a floating dtype, got ", parameter.dtype()));
    if (!parameter.is_leaf())
      throw InvalidArgument(
          text("[", name, "] expected parameter ", index, " to be a leaf, got the result of ", parameter.grad_fn()));
    if (!seen.insert(parameter.impl()).second)
      throw InvalidArgument(text("[", name, "] expected each parameter once, got parameter ", index, " again"));
    ++index;
  }
  std::vector<ParameterState> states(parameters.size());
  impl_->groups.push_back({std::move(parameters), std::move(states), first});
  impl_->is_logged = false;
}

void Optimizer::check_group(std::size_t group) const {
  if (group >= impl_->groups.size())
    throw InvalidArgument(
        text("[", impl_->name, "] expected the index of one of ", impl_->groups.size(), " groups, got ", group));
}

std::vector<Slot> Optimizer::checked_slots(std::size_t group) const {
  std::vector<Slot> all = slots(group);
  if (all.size() > kMasterSlot)
    throw InvalidArgument(
        text("[", impl_->name, "] expected slots() to return at most ", kMasterSlot, " slots, got ", all.size()));
  return all;
}

std::size_t Optimizer::group_count() const noexcept { return impl_->groups.size(); }

const std::vector<Tensor>& Optimizer::parameters(std::size_t group) const {
  check_group(group);
  return impl_->groups[group].parameters;
}

void Optimizer::step() try {
  const NoGrad guard;
  std::vector<ParameterGroup>& groups = impl_->groups;
  std::vector<std::vector<ParameterUpdate>> updates(groups.size());
  std::vector<std::vector<Slot>> used(groups.size());

  // All errors are thrown here, before anything changes.
  for (std::size_t g = 0; g < groups.size(); ++g) {
    check_options(g);
    used[g] = checked_slots(g);
    reconcile(groups[g].parameters);
    updates[g].reserve(groups[g].parameters.size());
    for (std::size_t i = 0; i < groups[g].parameters.size(); ++i)
      if (gradient_of(groups[g].parameters[i])) updates[g].push_back({i, gradients_of(g, i)});
  }
  note_gradient();
  compare_settings();
  std::vector<Tensor> stepped;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const ParameterUpdate& u : updates[g]) stepped.push_back(groups[g].parameters[u.index]);
  ShardUpdate sharded(stepped);
  StateMove move;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::vector<Slot> of_16_bits;
    for (const ParameterUpdate& u : updates[g]) {
      const Tensor& parameter = groups[g].parameters[u.index];
      const bool is_narrow = size_of(parameter.dtype()) == 2;
      if (is_narrow && of_16_bits.empty()) of_16_bits = slots_for(parameter.dtype(), used[g]);
      move.add(parameter, groups[g].states[u.index], is_narrow ? of_16_bits : used[g]);
    }
  }
  move.finish(groups);
  ReplayValues* const values = context().replay_values;
  for (std::size_t g = 0; g < groups.size() && values; ++g)
    for (const ParameterUpdate& u : updates[g])
      check_capture(impl_->name, groups[g].parameters[u.index], groups[g].states[u.index], used[g].size());

  std::vector<Batch> batches;
  std::vector<Tensor> changing;  // tensors that the batches update
  changing.reserve(stepped.size());
  const std::shared_ptr<CapturedOptimizerStep> captured = values ? std::make_shared<CapturedOptimizerStep>() : nullptr;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    batches.clear();
    for (const ParameterUpdate& u : updates[g]) {
      const Tensor& parameter = groups[g].parameters[u.index];
      ParameterState& state = groups[g].states[u.index];
      state.scalar_state = next_scalar_state(g, double(++state.step), state.scalar_state);
      unsigned new_slots = 0;
      for (std::size_t s = 0; s < used[g].size(); ++s)
        new_slots |= unsigned(state.created_at_step[s] == state.step) << s;
      for (std::size_t k = 0; k < u.gradients.size(); ++k) {
        const Tensor& there = replica(parameter, k);
        const TensorImpl& own = *changing.emplace_back(in_shard(there, there)).impl();
        Batch::Item item{&own, u.gradients[k].impl(), {}};
        for (std::size_t s = 0; s < kMaxSlots; ++s) item.slots[s] = state.replicas[k].slots[s].impl();
        batch_for(batches, *own.storage->device, own.dtype, state, new_slots).items.push_back(item);
      }
    }
    for (Batch& batch : batches) {
      if (values) {
        CapturedBatch& own = captured->batches.emplace_back(capture_batch(*values, g, batch));
        // Looks only at parameters that step: one without a gradient may have the batch's step count too.
        for (const ParameterUpdate& u : updates[g]) {
          const ParameterState& state = groups[g].states[u.index];
          if (double(state.step) == batch.step && state.scalar_state == batch.scalar_state)
            own.parameters.push_back(u.index);
        }
      }
      update(g, batch);
      if (values && captured->batches.back().rules->is_empty())
        throw InvalidArgument(
            text("[", impl_->name,
                 "] update() does not call optim::apply(), so it cannot be captured: run this optimizer "
                 "eagerly"));
    }
  }
  if (values) {
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const ParameterUpdate& u : updates[g]) captured->stepping.push_back({g, u.index});
    for (CapturedBatch& batch : captured->batches) batch.rules->end_capture();
    values->before_each([this, captured] { replay(*captured); });
  }
  register_with_capture(captured);
  sharded.all_gather();
} catch (...) {
  std::vector<Device> devices;
  for (const ParameterGroup& group : impl_->groups) add_devices(devices, group.parameters);
  lockstep::detail::rethrow_drained(devices);
}

Tensor Optimizer::step(const Closure& closure) {
  Tensor loss;
  {
    const GradMode guard(true);
    loss = closure();
  }
  step();
  return loss;
}

void Optimizer::note_gradient() {
  for (const ParameterGroup& group : impl_->groups)
    for (const Tensor& parameter : group.parameters) impl_->has_seen_gradient |= gradient_of(parameter) != nullptr;
  if (!impl_->has_seen_gradient)
    throw AutogradError(
        text("[", impl_->name,
             "] expected a parameter with a gradient, but none has had one since the optimizer was made: call "
             "backward() before step(), and give the optimizer the parameters of the module that runs, "
             "not of one that it was copied from"));
}

std::vector<Tensor> Optimizer::gradients_of(std::size_t group, std::size_t i) const {
  const ParameterGroup& in = impl_->groups[group];
  const Tensor& parameter = in.parameters[i];
  const std::size_t index = in.first + i;
  const auto refuse = [&](const char* what, const auto&... got) {
    throw InvalidArgument(text("[", impl_->name, "] expected parameter ", index, " ", what, got...));
  };
  std::vector<Tensor> gradients;
  gradients.reserve(replica_count(parameter));
  for (std::size_t k = 0; k < replica_count(parameter); ++k) {
    const Tensor& there = replica(parameter, k);
    if (!there.is_contiguous()) refuse("to be contiguous, got strides ", there.strides(), " on ", there.device());
    if (there.sizes() != parameter.sizes() || there.dtype() != parameter.dtype())
      refuse("to have one shape and dtype on all devices, got ", parameter.sizes(), ' ', parameter.dtype(), " on ",
             parameter.device(), " and ", there.sizes(), ' ', there.dtype(), " on ", there.device());
    gradients.push_back(in_shard(gradient_in(impl_->name, index, parameter, k), there));
  }
  if (const ParameterState& state = in.states[i]; !state.replicas.empty() && state.sizes != parameter.sizes())
    refuse("to keep its shape ", state.sizes, ", got ", parameter.sizes());
  return gradients;
}

void Optimizer::zero_grad(bool set_to_none) {
  const NoGrad guard;
  for (const ParameterGroup& group : impl_->groups)
    for (const Tensor& parameter : group.parameters) autograd::check_idle("zero_grad", parameter);
  std::vector<Tensor> dense;
  for (const ParameterGroup& group : impl_->groups)
    for (const Tensor& parameter : group.parameters) {
      autograd::use_in_step(parameter);
      impl_->has_seen_gradient |= gradient_of(parameter) != nullptr;
      if (set_to_none) {
        autograd::clear_grad("zero_grad", parameter);
        continue;
      }
      for (std::size_t k = 0; k < replica_count(parameter); ++k) {
        const Tensor* const gradient = gradient_of(replica(parameter, k));
        if (!gradient) continue;
        if (overlaps_itself(*gradient->impl()))  // an expanded gradient of the user cannot be zeroed in place
          autograd::make_meta(replica(parameter, k)).grad = zeros_like(gradient->detach());
        else if (gradient->is_contiguous())
          dense.push_back(*gradient);
        else
          gradient->detach().zero_();
      }
    }
  for (const TensorGroup& group : by_device_and_dtype(dense)) change_elements("zero_grad", 0, Zero(), group);
}

double* Optimizer::find_number(std::size_t group, std::string_view name) const {
  check_group(group);
  // option_list() returns the addresses of the options and changes none.
  for (const Option& option : const_cast<Optimizer*>(this)->option_list(group))
    if (option.name == name) return std::get<double*>(option.value);
  return nullptr;
}

double* Optimizer::find_momentum(std::size_t group) const {
  if (double* const momentum = find_number(group, "momentum")) return momentum;
  for (const Option& option : const_cast<Optimizer*>(this)->option_list(group))
    if (option.name == "betas") return &(*std::get<std::array<double, 2>*>(option.value))[0];
  return nullptr;
}

double Optimizer::lr(std::size_t group) const { return *find_number(group, "lr"); }
void Optimizer::set_lr(double lr, std::size_t group) { *find_number(group, "lr") = lr; }
void Optimizer::set_lr(double lr) {
  for (std::size_t g = 0; g < group_count(); ++g) set_lr(lr, g);
}

std::optional<double> Optimizer::momentum(std::size_t group) const {
  const double* const momentum = find_momentum(group);
  return momentum ? std::optional(*momentum) : std::nullopt;
}

void Optimizer::set_momentum(double value, std::size_t group) {
  double* const momentum = find_momentum(group);
  if (!momentum)
    throw InvalidArgument(text("[", impl_->name, "] expected an optimizer with momentum, got one without"));
  *momentum = value;
}

}  // namespace lockstep::optim
