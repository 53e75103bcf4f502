// Tensors of which each device has a shard, made whole on all of them.
#pragma once

#include <span>
#include <vector>

#include <lockstep/runtime/communicator.h>
#include <lockstep/tensor/tensor.h>

#include "autograd/replicated_parameter.h"

namespace lockstep {

/// Equal tensors, contiguous, each right in its device's shard. The shards together are all elements, each once.
struct ShardedTensor {
  std::vector<Tensor> tensors;          ///< By device of this process.
  std::vector<autograd::Shard> shards;  ///< By rank of all processes.
};

/// Sends each rank's shard of each tensor to all others, on the current streams, from where the elements lie to where
/// they belong, so that tensors need not lie together. Does not count as a change. Between processes the devices with
/// the same place in each exchange shards, once; then those of each process do (`own_devices`), if there are several.
void all_gather_shards(Communicator& all, Communicator& own_devices, std::span<const ShardedTensor> tensors);

}  // namespace lockstep
