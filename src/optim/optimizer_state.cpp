// The state dict of optimizers.
#include <cmath>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/tensor/creation.h>

#include "optim/optimizer_impl.h"
#include "optim/state_reader.h"
#include "tensor/copy.h"

namespace lockstep::optim {
namespace {

std::string state_key(std::size_t index, std::string_view name) { return text("state.", index, ".", name); }
std::string group_key(std::size_t group, std::string_view name) { return text("param_groups.", group, ".", name); }

Tensor integer_tensor(std::int64_t value) { return from_host(&value, 1, kInt64, {}, {.dtype = kInt64}); }

Tensor indices_of(const ParameterGroup& group) {
  const auto first = double(group.first);
  return arange(first, first + double(group.parameters.size()), 1, {.dtype = kInt64});
}

struct ToTensor {
  Tensor operator()(const double* value) const { return number_tensor(*value); }
  Tensor operator()(const bool* value) const { return from_host(value, 1, kBool, {}, {.dtype = kBool}); }
  Tensor operator()(const std::int64_t* value) const { return integer_tensor(*value); }
  Tensor operator()(const std::array<double, 2>* values) const {
    return from_host(values->data(), 2, kFloat64, {2}, {.dtype = kFloat64});
  }
};

struct FromDict {
  StateReader& reader;
  std::string key;

  void operator()(double* value) const { reader.number(key, *value); }
  void operator()(bool* value) const {
    double number = *value;
    if (reader.number(key, number)) *value = number != 0;
  }
  void operator()(std::int64_t* value) const { reader.integer(key, *value); }
  void operator()(std::array<double, 2>* values) const {
    std::vector<double> numbers(values->begin(), values->end());
    if (reader.numbers(key, numbers)) std::copy(numbers.begin(), numbers.end(), values->begin());
  }
};

// Restores the previous values of options in its destructor, unless keep() was called.
class OptionBackup {
 public:
  void save(const Option& option) {
    std::visit([this](auto* value) { restores_.push_back([value, before = *value] { *value = before; }); },
               option.value);
  }
  void keep() { restores_.clear(); }
  ~OptionBackup() {
    for (const auto& restore : restores_) restore();
  }

 private:
  std::vector<std::function<void()>> restores_;
};

Tensor flat(const Tensor& tensor) { return part(tensor, {0, tensor.numel()}); }

// The state of a parameter that was read from a state dict, before it is installed.
struct Given {
  ParameterState state;
  std::array<const Tensor*, kMaxSlots> slots = {};
};

Given read_parameter(StateReader& reader, std::size_t index, const Tensor& parameter, std::span<const Slot> slots,
                     const char* scalar_state_name) {
  Given given;
  bool any = reader.has(state_key(index, "step"));
  for (const Slot& slot : slots) any |= reader.has(state_key(index, slot.name));
  if (!any) return given;

  reader.integer(state_key(index, "step"), given.state.step);
  if (scalar_state_name) reader.number(state_key(index, scalar_state_name), given.state.scalar_state);
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const std::string key = state_key(index, slots[s].name);
    if ((!slots[s].used || s == kMasterSlot) && !reader.has(key)) continue;  // may be missing: the next step makes it
    given.slots[s] = reader.tensor(key, parameter.sizes());
    if (given.slots[s] && !is_floating(given.slots[s]->dtype()))
      reader.problem("key \"", key, "\" has dtype ", given.slots[s]->dtype(), ", expected a floating dtype");
  }
  return given;
}

void request(const Tensor& parameter, Given& given, std::vector<SlotRequest>& requests) {
  const std::size_t count = given.state.step > 0 ? replica_count(parameter) : 0;
  given.state.sizes = parameter.sizes();
  if (count > 0) given.state.shard_layout = shard_layout_of(parameter);
  given.state.replicas = std::vector<ReplicaState>(count);
  for (std::size_t k = 0; k < count; ++k) {
    ReplicaState& there = given.state.replicas[k];
    there.shard = shard_of(replica(parameter, k));
    for (std::size_t s = 0; s < kMaxSlots; ++s)
      if (given.slots[s]) requests.push_back({&there.slots[s], &replica(parameter, k), there.shard, s, 0});
  }
}

// Returns the whole slot of a parameter. If replicas or processes have only shards of it, joins these on the CPU,
// because devices may have no room for the whole slot.
Tensor whole_slot(const Tensor& parameter, const ParameterState& state, std::size_t slot, GatheredSlots& gathered) {
  const ReplicaState& first = state.replicas[0];
  const ShardRange all{0, parameter.numel()};
  if (!state.shard_layout && first.shard == all) return first.slots[slot].detach();
  Tensor whole = make_tensor(device_state(Device()), parameter.sizes(), first.slots[slot].dtype());
  if (state.shard_layout) return copy_values(flat(whole), gathered.get(state, slot)), whole;
  collect_slot(whole, all, state, slot);
  return whole;
}

}  // namespace

StateDict Optimizer::state_dict() const {
  StateDict dict;
  GatheredSlots gathered;
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    const ParameterGroup& group = impl_->groups[g];
    const std::vector<Slot> kinds = checked_slots(g);
    for (std::size_t i = 0; i < group.states.size(); ++i) {
      const ParameterState& state = group.states[i];
      if (state.step == 0) continue;
      const std::size_t index = group.first + i;
      dict.add(state_key(index, "step"), integer_tensor(state.step));
      if (scalar_state_name()) dict.add(state_key(index, scalar_state_name()), number_tensor(state.scalar_state));
      const std::vector<Slot> own = slots_for(group.parameters[i].dtype(), kinds);
      for (std::size_t s = 0; s < own.size(); ++s)
        if (state.any(s).defined())
          dict.add(state_key(index, own[s].name), whole_slot(group.parameters[i], state, s, gathered));
    }
  }
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    for (const Option& option : const_cast<Optimizer*>(this)->option_list(g))  // option_list() changes nothing
      dict.add(group_key(g, option.name), std::visit(ToTensor(), option.value));
    dict.add(group_key(g, "params"), indices_of(impl_->groups[g]));
  }
  add_own_state(dict);
  return dict;
}

void Optimizer::reset_state() {
  for (ParameterGroup& group : impl_->groups) group.states = std::vector<ParameterState>(group.parameters.size());
  reset_own_state();
  impl_->is_logged = false;
}

void Optimizer::load_state_dict(const StateDict& dict) {
  const NoGrad guard;
  StateReader reader(dict);
  OptionBackup backup;
  std::vector<std::vector<Given>> given(impl_->groups.size());
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    for (const Option& option : option_list(g)) {
      backup.save(option);
      std::visit(FromDict{reader, group_key(g, option.name)}, option.value);
    }
    try {
      check_options(g);
    } catch (const InvalidArgument& error) {
      reader.problem("in group ", g, ": ", error.what());
    }
    const ParameterGroup& group = impl_->groups[g];
    std::vector<double> indices(group.parameters.size());
    const auto first = double(group.first);
    if (reader.numbers(group_key(g, "params"), indices) && indices.front() != first)
      reader.problem("key \"", group_key(g, "params"), "\" begins at parameter ", indices.front(), ", expected ",
                     first);
    const std::vector<Slot> kinds = checked_slots(g);
    for (std::size_t i = 0; i < group.parameters.size(); ++i)
      given[g].push_back(read_parameter(reader, group.first + i, group.parameters[i],
                                        slots_for(group.parameters[i].dtype(), kinds), scalar_state_name()));
  }
  const std::function<void()> take_own_state = read_own_state(reader);
  reader.finish(impl_->name);

  std::vector<SlotRequest> requests;
  for (std::size_t g = 0; g < given.size(); ++g)
    for (std::size_t i = 0; i < given[g].size(); ++i) request(impl_->groups[g].parameters[i], given[g][i], requests);
  make_slots(requests);
  for (std::size_t g = 0; g < given.size(); ++g)
    for (std::size_t i = 0; i < given[g].size(); ++i) {
      Given& loaded = given[g][i];
      for (const ReplicaState& there : loaded.state.replicas)
        for (std::size_t s = 0; s < kMaxSlots; ++s)
          if (loaded.slots[s]) copy_values(flat(there.slots[s]), part(loaded.slots[s]->contiguous(), there.shard));
    }
  for (std::size_t g = 0; g < given.size(); ++g)
    for (std::size_t i = 0; i < given[g].size(); ++i) impl_->groups[g].states[i] = std::move(given[g][i].state);
  if (take_own_state) take_own_state();
  backup.keep();
  impl_->is_logged = false;
}

}  // namespace lockstep::optim
