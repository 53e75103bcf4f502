#include <algorithm>
#include <tuple>
#include <unordered_set>

#include <lockstep/core/error.h>

#include "optim/optimizer_impl.h"
#include "tensor/copy.h"

namespace lockstep::optim {
namespace {

// The key of a request: requests with equal keys get parts of one array.
auto array_of(const SlotRequest& request) {
  const TensorImpl& like = *request.like->impl();
  return std::tuple(like.storage->device->device, state_dtype(like.dtype), request.slot, request.initial);
}

// The number of array elements that a request takes. It includes padding, so that each slot is aligned for the
// vectorized forms of kernels.
std::int64_t padded_elements(const SlotRequest& request) {
  constexpr std::int64_t kGranularity = 64;  // elements
  return (request.shard.end - request.shard.begin + kGranularity - 1) / kGranularity * kGranularity;
}

void make_array(std::span<const SlotRequest> requests) {
  std::int64_t elements = 0;
  for (const SlotRequest& request : requests) elements += padded_elements(request);
  const TensorImpl& like = *requests.front().like->impl();
  Tensor all = make_tensor(*like.storage->device, {elements}, state_dtype(like.dtype));
  if (elements > 0) all.fill_(requests.front().initial);
  std::int64_t offset = 0;
  for (const SlotRequest& request : requests) {
    const std::int64_t count = request.shard.end - request.shard.begin;
    const Shape sizes = count == request.like->numel() ? request.like->sizes() : Shape{count};
    *request.into = make_view(all, sizes, contiguous_strides(sizes), offset);
    offset += padded_elements(request);
  }
}

bool matches_parameter(const Tensor& slot, const Tensor& parameter) {
  return slot.impl()->storage->device == parameter.impl()->storage->device &&
         slot.dtype() == state_dtype(parameter.dtype());
}

bool is_same(const std::shared_ptr<const autograd::ShardLayout>& a,
             const std::shared_ptr<const autograd::ShardLayout>& b) {
  if (!a || !b) return a == b;
  return a->shards == b->shards && a->world.transport() == b->world.transport();
}

// True if each replica has the state of its shard, for all used slots, so that no state must move. All processes that
// have shards of the parameter get the same answer.
bool is_in_place(const Tensor& parameter, const ParameterState& state, std::span<const Slot> slots) {
  if (state.replicas.size() != replica_count(parameter) || !is_same(state.shard_layout, shard_layout_of(parameter)))
    return false;
  for (std::size_t k = 0; k < state.replicas.size(); ++k) {
    const Tensor& there = replica(parameter, k);
    if (state.replicas[k].shard != shard_of(there)) return false;
    for (std::size_t s = 0; s < slots.size(); ++s) {
      const Tensor& slot = state.replicas[k].slots[s];
      if (slot.defined() ? !matches_parameter(slot, there) : slots[s].used) return false;
    }
  }
  return true;
}

// The existing tensor of the slot if the slot can stay in its memory, else an undefined Tensor.
Tensor kept_slot(const ParameterState& state, const Tensor& there, ShardRange shard, std::size_t slot) {
  for (const ReplicaState& before : state.replicas)
    if (before.slots[slot].defined() && before.shard == shard && matches_parameter(before.slots[slot], there))
      return before.slots[slot];
  return {};
}

bool has(const ParameterState& state, const Tensor& slot) {
  for (const ReplicaState& replica : state.replicas)
    for (const Tensor& other : replica.slots)
      if (other.defined() && other.is_same(slot)) return true;
  return false;
}

void for_each_slot(ParameterState& state, const auto& visit) {
  for (std::size_t k = 0; k < state.replicas.size(); ++k)
    for (std::size_t s = 0; s < kMaxSlots; ++s)
      if (Tensor& slot = state.replicas[k].slots[s]; slot.defined()) visit(k, s, slot);
}

}  // namespace

void make_slots(std::vector<SlotRequest> requests) {
  const auto memory = [](const SlotRequest& request) { return in_shard(*request.like, *request.like).impl()->data(); };
  std::sort(requests.begin(), requests.end(), [&](const SlotRequest& a, const SlotRequest& b) {
    return std::tuple(array_of(a), memory(a)) < std::tuple(array_of(b), memory(b));
  });
  for (auto begin = requests.begin(); begin != requests.end();) {
    const auto end =
        std::find_if(begin, requests.end(), [&](const auto& r) { return array_of(r) != array_of(*begin); });
    make_array(std::span(begin, end));
    begin = end;
  }
}

void collect_slot(const Tensor& to, ShardRange shard, const ParameterState& from, std::size_t slot) {
  for (std::int64_t at = shard.begin; at < shard.end;) {
    const ReplicaState* source = nullptr;
    for (const ReplicaState& replica : from.replicas) {
      if (at < replica.shard.begin || at >= replica.shard.end) continue;
      if (!source || replica.slots[slot].device() == to.device()) source = &replica;
    }
    const std::int64_t end = std::min(shard.end, source->shard.end), first = source->shard.begin;
    copy_values(part(to, {at - shard.begin, end - shard.begin}), part(source->slots[slot], {at - first, end - first}));
    at = end;
  }
}

void StateMove::add(const Tensor& parameter, ParameterState& state, std::span<const Slot> slots) {
  if (is_in_place(parameter, state, slots)) return;
  ParameterState& becomes = moved_.emplace_back(Moved{&parameter, &state, state}).becomes;
  becomes.sizes = parameter.sizes();
  becomes.shard_layout = shard_layout_of(parameter);
  const bool of_all_processes = state.shard_layout != nullptr;
  becomes.replicas = std::vector<ReplicaState>(replica_count(parameter));
  for (std::size_t k = 0; k < becomes.replicas.size(); ++k) becomes.replicas[k].shard = shard_of(replica(parameter, k));
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const bool known = state.any(s).defined();
    if (!known && !slots[s].used) continue;
    if (!known) becomes.created_at_step[s] = state.step + 1;
    for (std::size_t k = 0; k < becomes.replicas.size(); ++k) {
      const Tensor& there = replica(parameter, k);
      const ShardRange shard = becomes.replicas[k].shard;
      Tensor& slot = becomes.replicas[k].slots[s];
      slot = of_all_processes ? Tensor() : kept_slot(state, there, shard, s);
      if (slot.defined()) continue;
      requests_.push_back({&slot, &there, shard, s, known ? 0 : slots[s].initial});
      if (known) copies_.push_back({&slot, shard, &state, s, of_all_processes});
    }
  }
}

// If one slot stays in an array, the whole array stays allocated. So if any slot leaves an array, all other slots of
// the array move too, even those of parameters without a gradient.
void StateMove::move_out_of_shared_arrays(std::span<ParameterGroup> groups) {
  std::unordered_set<const Storage*> arrays;
  std::unordered_set<const ParameterState*> known;
  for (Moved& each : moved_) {
    known.insert(each.state);
    for_each_slot(*each.state, [&](std::size_t, std::size_t, const Tensor& slot) {
      if (!has(each.becomes, slot)) arrays.insert(slot.impl()->storage);
    });
  }
  if (arrays.empty()) return;
  for (ParameterGroup& group : groups)
    for (std::size_t i = 0; i < group.states.size(); ++i)
      if (ParameterState& state = group.states[i]; !known.contains(&state))
        moved_.push_back({&group.parameters[i], &state, state});
  for (Moved& each : moved_)
    for_each_slot(each.becomes, [&](std::size_t k, std::size_t s, Tensor& slot) {
      if (!arrays.contains(slot.impl()->storage)) return;
      const ShardRange shard = each.becomes.replicas[k].shard;
      requests_.push_back({&slot, &layout_neighbor(each, k, s), shard, s, 0});
      copies_.push_back({&slot, shard, each.state, s});
    });
}

// The tensor that gives a moved slot its device, its dtype and its order in the new array: the parameter's replica, or
// the old slot if the parameter has changed.
const Tensor& StateMove::layout_neighbor(const Moved& each, std::size_t k, std::size_t slot) {
  const Tensor& parameter = *each.parameter;
  const Tensor& present = each.becomes.replicas[k].slots[slot];
  if (k < replica_count(parameter) && each.becomes.sizes == parameter.sizes() &&
      each.becomes.replicas[k].shard == shard_of(replica(parameter, k)) &&
      matches_parameter(present, replica(parameter, k)))
    return replica(parameter, k);
  return each.state->replicas[k].slots[slot];
}

// If device memory cannot hold the old and the new arrays at the same time, moves the old state to the host first.
void StateMove::move_to_host() {
  for (const SlotRequest& request : requests_) *request.into = Tensor();
  for (Moved& each : moved_)
    for_each_slot(*each.state, [&](std::size_t, std::size_t, Tensor& slot) {
      if (!has(each.becomes, slot)) slot = copied(slot, device_state(Device()), slot.dtype());
    });
}

void StateMove::finish(std::span<ParameterGroup> groups) {
  if (moved_.empty()) return;
  move_out_of_shared_arrays(groups);
  try {
    make_slots(requests_);
  } catch (const OutOfMemory&) {
    if (copies_.empty()) throw;
    move_to_host();
    make_slots(requests_);
  }
  GatheredSlots gathered;
  for (const Copy& copy : copies_)
    if (copy.of_all_processes)
      copy_values(part(*copy.to, {0, copy.shard.size()}), part(gathered.get(*copy.from, copy.slot), copy.shard));
    else
      collect_slot(*copy.to, copy.shard, *copy.from, copy.slot);
  for (Moved& each : moved_) *each.state = std::move(each.becomes);
}

}  // namespace lockstep::optim
