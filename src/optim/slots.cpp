#include <algorithm>
#include <tuple>
#include <unordered_set>

#include <lockstep/core/error.h>

#include "optim/optimizer_impl.h"
#include "tensor/copy.h"

namespace lockstep::optim {
namespace {

// Requests that share an array.
auto array_of(const SlotRequest& request) {
  const TensorImpl& like = *request.like->impl();
  return std::tuple(like.storage->device->device, state_dtype(like.dtype), request.slot, request.initial);
}

// What a request takes of its array: aligned, so that kernels have their fast forms.
std::int64_t place_of(const SlotRequest& request) {
  constexpr std::int64_t kPlace = 64;  // elements
  return (request.share.end - request.share.begin + kPlace - 1) / kPlace * kPlace;
}

void make_array(std::span<const SlotRequest> requests) {
  std::int64_t elements = 0;
  for (const SlotRequest& request : requests) elements += place_of(request);
  const TensorImpl& like = *requests.front().like->impl();
  Tensor all = make_tensor(*like.storage->device, {elements}, state_dtype(like.dtype));
  if (elements > 0) all.fill_(requests.front().initial);
  std::int64_t offset = 0;
  for (const SlotRequest& request : requests) {
    const std::int64_t count = request.share.end - request.share.begin;
    const Shape sizes = count == request.like->numel() ? request.like->sizes() : Shape{count};
    *request.into = make_view(all, sizes, contiguous_strides(sizes), offset);
    offset += place_of(request);
  }
}

bool stands(const Tensor& slot, const Tensor& parameter) {
  return slot.impl()->storage->device == parameter.impl()->storage->device &&
         slot.dtype() == state_dtype(parameter.dtype());
}

// Each place has its share of all used slots.
bool is_settled(const Tensor& parameter, const ParameterState& state, std::span<const Slot> slots) {
  if (state.places.size() != place_count(parameter)) return false;
  for (std::size_t k = 0; k < state.places.size(); ++k) {
    const Tensor& there = place(parameter, k);
    if (state.places[k].share != share_of(there)) return false;
    for (std::size_t s = 0; s < slots.size(); ++s) {
      const Tensor& slot = state.places[k].slots[s];
      if (slot.defined() ? !stands(slot, there) : slots[s].used) return false;
    }
  }
  return true;
}

// The tensor of that slot in the state that can stay where it is, or undefined.
Tensor kept_slot(const ParameterState& state, const Tensor& there, Share share, std::size_t slot) {
  for (const PlaceState& before : state.places)
    if (before.slots[slot].defined() && before.share == share && stands(before.slots[slot], there))
      return before.slots[slot];
  return {};
}

bool has(const ParameterState& state, const Tensor& slot) {
  for (const PlaceState& place : state.places)
    for (const Tensor& other : place.slots)
      if (other.defined() && other.is_same(slot)) return true;
  return false;
}

void for_each_slot(ParameterState& state, const auto& visit) {
  for (std::size_t k = 0; k < state.places.size(); ++k)
    for (std::size_t s = 0; s < kMaxSlots; ++s)
      if (Tensor& slot = state.places[k].slots[s]; slot.defined()) visit(k, s, slot);
}

}  // namespace

void make_slots(std::vector<SlotRequest> requests) {
  std::sort(requests.begin(), requests.end(), [](const SlotRequest& a, const SlotRequest& b) {
    return std::tuple(array_of(a), a.like->impl()->data()) < std::tuple(array_of(b), b.like->impl()->data());
  });
  for (auto begin = requests.begin(); begin != requests.end();) {
    const auto end =
        std::find_if(begin, requests.end(), [&](const auto& r) { return array_of(r) != array_of(*begin); });
    make_array(std::span(begin, end));
    begin = end;
  }
}

void collect_slot(const Tensor& to, Share share, const ParameterState& from, std::size_t slot) {
  for (std::int64_t at = share.begin; at < share.end;) {
    const PlaceState* source = nullptr;
    for (const PlaceState& place : from.places) {
      if (at < place.share.begin || at >= place.share.end) continue;
      if (!source || place.slots[slot].device() == to.device()) source = &place;
    }
    const std::int64_t end = std::min(share.end, source->share.end), first = source->share.begin;
    copy_values(part(to, {at - share.begin, end - share.begin}), part(source->slots[slot], {at - first, end - first}));
    at = end;
  }
}

void Settling::add(const Tensor& parameter, ParameterState& state, std::span<const Slot> slots) {
  if (is_settled(parameter, state, slots)) return;
  ParameterState& becomes = settled_.emplace_back(Settled{&parameter, &state, state}).becomes;
  becomes.sizes = parameter.sizes();
  becomes.places = std::vector<PlaceState>(place_count(parameter));
  for (std::size_t k = 0; k < becomes.places.size(); ++k) becomes.places[k].share = share_of(place(parameter, k));
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const bool known = state.any(s).defined();
    if (!known && !slots[s].used) continue;
    if (!known) becomes.born[s] = state.step + 1;
    for (std::size_t k = 0; k < becomes.places.size(); ++k) {
      const Tensor& there = place(parameter, k);
      const Share share = becomes.places[k].share;
      Tensor& slot = becomes.places[k].slots[s];
      slot = kept_slot(state, there, share, s);
      if (slot.defined()) continue;
      requests_.push_back({&slot, &there, share, s, known ? 0 : slots[s].initial});
      if (known) copies_.push_back({&slot, share, &state, s});
    }
  }
}

// What stays in an array keeps all of it, also what others have left: it moves with them, though its parameter be idle.
void Settling::leave_arrays(std::span<ParameterGroup> groups) {
  std::unordered_set<const Storage*> arrays;
  std::unordered_set<const ParameterState*> known;
  for (Settled& each : settled_) {
    known.insert(each.state);
    for_each_slot(*each.state, [&](std::size_t, std::size_t, const Tensor& slot) {
      if (!has(each.becomes, slot)) arrays.insert(slot.impl()->storage);
    });
  }
  if (arrays.empty()) return;
  for (ParameterGroup& group : groups)
    for (std::size_t i = 0; i < group.states.size(); ++i)
      if (ParameterState& state = group.states[i]; !known.contains(&state))
        settled_.push_back({&group.parameters[i], &state, state});
  for (Settled& each : settled_)
    for_each_slot(each.becomes, [&](std::size_t k, std::size_t s, Tensor& slot) {
      if (!arrays.contains(slot.impl()->storage)) return;
      const Share share = each.becomes.places[k].share;
      requests_.push_back({&slot, &beside(each, k, s), share, s, 0});
      copies_.push_back({&slot, share, each.state, s});
    });
}

// What a slot lies beside: the parameter in that place, or where that has changed, the slot as it is.
const Tensor& Settling::beside(const Settled& each, std::size_t k, std::size_t slot) {
  const Tensor& parameter = *each.parameter;
  const Tensor& present = each.becomes.places[k].slots[slot];
  if (k < place_count(parameter) && each.becomes.sizes == parameter.sizes() &&
      each.becomes.places[k].share == share_of(place(parameter, k)) && stands(present, place(parameter, k)))
    return place(parameter, k);
  return each.state->places[k].slots[slot];
}

// Where there is no room for new arrays beside those that they replace, the host keeps what is to be copied.
void Settling::move_to_host() {
  for (const SlotRequest& request : requests_) *request.into = Tensor();
  for (Settled& each : settled_)
    for_each_slot(*each.state, [&](std::size_t, std::size_t, Tensor& slot) {
      if (!has(each.becomes, slot)) slot = copied(slot, device_state(Device()), slot.dtype());
    });
}

void Settling::finish(std::span<ParameterGroup> groups) {
  leave_arrays(groups);
  try {
    make_slots(requests_);
  } catch (const OutOfMemory&) {
    if (copies_.empty()) throw;
    move_to_host();
    make_slots(requests_);
  }
  for (const Copy& copy : copies_) collect_slot(*copy.to, copy.share, *copy.from, copy.slot);
  for (Settled& each : settled_) *each.state = std::move(each.becomes);
}

}  // namespace lockstep::optim
