// Tensors of which each device has a shard, made whole on all of them.
#pragma once

#include <span>
#include <vector>

#include <lockstep/runtime/communicator.h>
#include <lockstep/tensor/tensor.h>

#include "autograd/replicated_parameter.h"

namespace lockstep {

/// One of equal tensors, contiguous, and what is right in it.
struct DeviceShard {
  Tensor tensor;
  autograd::Shard shard;
};
/// By rank. The shards together are all elements, each once.
using ShardedTensor = std::vector<DeviceShard>;

/// Sends each rank's shard of each tensor to all others: one exchange on the current streams, from where the elements
/// lie to where they belong, so that tensors need not lie together. Does not count as a change.
void all_gather_shards(Communicator& communicator, std::span<const ShardedTensor> tensors);

}  // namespace lockstep
