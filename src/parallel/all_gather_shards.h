// All-gathers tensors of which each device has a shard.
#pragma once

#include <span>
#include <vector>

#include <lockstep/runtime/communicator.h>
#include <lockstep/tensor/tensor.h>

#include "autograd/replicated_parameter.h"

namespace lockstep {

/// One tensor per device, all of one shape, contiguous, each valid in its device's shard. The shards cover every
/// element once.
struct ShardedTensor {
  std::vector<Tensor> tensors;          ///< By device of this process.
  std::vector<autograd::Shard> shards;  ///< By rank of all processes.
};

/// Sends each rank's shard of each tensor to all other ranks, on the current streams, directly between the tensors,
/// which may lie anywhere in memory. Does not count as an in-place change. Between processes, devices with the same
/// index exchange shards, once; then, if there are several processes, the devices of each exchange theirs
/// (`own_devices`).
void all_gather_shards(Communicator& all, Communicator& own_devices, std::span<const ShardedTensor> tensors);

}  // namespace lockstep
