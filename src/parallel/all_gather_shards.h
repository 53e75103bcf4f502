// All-gathers sharded tensors: each device has one shard of each tensor.
#pragma once

#include <span>
#include <vector>

#include <lockstep/runtime/communicator.h>
#include <lockstep/tensor/tensor.h>

#include "autograd/replicated_parameter.h"

namespace lockstep {

/// One tensor per device. All are contiguous and have one shape; each is valid only in its device's shard. The shards
/// cover every element once.
struct ShardedTensor {
  std::vector<Tensor> tensors;               ///< By device of this process.
  std::vector<autograd::ShardRange> shards;  ///< By rank of all processes.
};

/// Sends each rank's shard of each tensor to all other ranks, on the current streams, directly between the tensors,
/// which may lie anywhere in memory. Does not count as an in-place change. With several processes this takes two steps:
/// device i of each process exchanges its shards with device i of the other processes; then the devices of each process
/// (`own_devices`) exchange all the shards that they have.
void all_gather_shards(Communicator& all, Communicator& own_devices, std::span<const ShardedTensor> tensors);

}  // namespace lockstep
