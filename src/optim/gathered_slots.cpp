#include <numeric>

#include "optim/optimizer_impl.h"
#include "tensor/copy.h"

namespace lockstep::optim {
namespace {

// Returns this process's shards of the slot, concatenated, on the host.
Tensor own_shards(const ParameterState& state, std::size_t slot, std::int64_t elements) {
  Tensor all = make_tensor(device_state(Device()), {elements}, state.any(slot).dtype());
  std::int64_t at = 0;
  for (const ReplicaState& replica : state.replicas) {
    const std::int64_t end = at + replica.shard.size();
    if (at < end) copy_values(part(all, {at, end}), part(replica.slots[slot], {0, end - at}));
    at = end;
  }
  return all;
}

}  // namespace

const Tensor& GatheredSlots::get(const ParameterState& state, std::size_t slot) {
  if (state_ == &state && slot_ == slot) return whole_;
  const autograd::ShardLayout& layout = *state.shard_layout;
  if (!communicator_ || transport_ != layout.world.transport()) {
    communicator_.emplace(std::vector<Device>{Device()}, layout.world);
    transport_ = layout.world.transport();
  }
  const std::size_t processes = std::size_t(layout.world.size()), each = layout.shards.size() / processes;
  std::vector<std::size_t> counts(processes);
  for (std::size_t rank = 0; rank < layout.shards.size(); ++rank)
    counts[rank / each] += std::size_t(layout.shards[rank].size());
  const Tensor own = own_shards(state, slot, std::int64_t(counts[layout.first_rank / each]));
  whole_ =
      make_tensor(device_state(Device()), {std::reduce(counts.begin(), counts.end(), std::int64_t(0))}, own.dtype());
  const RankBuffers part = {current_stream(Device()), own.impl()->data(), whole_.impl()->data()};
  communicator_->all_gather(std::span(&part, 1), counts, own.dtype());
  state_ = &state;
  slot_ = slot;
  return whole_;
}

}  // namespace lockstep::optim
