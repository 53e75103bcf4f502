#include <algorithm>
#include <tuple>

#include "optim/optimizer_impl.h"
#include "tensor/copy.h"

namespace lockstep::optim {
namespace {

// Requests that share an array.
auto array_of(const SlotRequest& request) {
  const TensorImpl& like = *request.like->impl();
  return std::tuple(like.storage->device->device, state_dtype(like.dtype), request.slot, request.initial);
}

void make_array(std::span<const SlotRequest> requests) {
  std::int64_t elements = 0;
  for (const SlotRequest& request : requests) elements += request.share.end - request.share.begin;
  const TensorImpl& like = *requests.front().like->impl();
  Tensor all = make_tensor(*like.storage->device, {elements}, state_dtype(like.dtype));
  if (elements > 0) all.fill_(requests.front().initial);
  std::int64_t offset = 0;
  for (const SlotRequest& request : requests) {
    const std::int64_t count = request.share.end - request.share.begin;
    const Shape sizes = count == request.like->numel() ? request.like->sizes() : Shape{count};
    *request.into = make_view(all, sizes, contiguous_strides(sizes), offset);
    offset += count;
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
  ParameterState& becomes = settled_.emplace_back(Settled{&state, state}).becomes;
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

void Settling::finish() {
  make_slots(requests_);
  for (const Copy& copy : copies_) collect_slot(*copy.to, copy.share, *copy.from, copy.slot);
  for (Settled& each : settled_) *each.state = std::move(each.becomes);
}

}  // namespace lockstep::optim
