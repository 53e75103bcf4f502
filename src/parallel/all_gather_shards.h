// All-gathers sharded tensors: each device has one shard of each tensor.
#pragma once

#include <span>
#include <vector>

#include <lockstep/runtime/communicator.h>
#include <lockstep/tensor/tensor.h>

#include "autograd/replicated_parameter.h"

namespace lockstep {

/// One tensor per device. All are contiguous and have one shape; each is valid only in its device's shard. The shards
/// cover every element once, in the order of the ranks, and begin at multiples of 64 elements.
struct ShardedTensor {
  std::vector<Tensor> tensors;               ///< By device of this process.
  std::vector<autograd::ShardRange> shards;  ///< By rank of all processes.
};

/// Gives each device the shards of all ranks by one all-gather, on the current streams. All tensors have one dtype,
/// such as the parameters of a bucket. They may lie anywhere in memory: the shards of several tensors go through an
/// array of the tensors' size on each device, with one launch before and one after the collective. Does not count as an
/// in-place change.
void all_gather_shards(Communicator& communicator, std::span<const ShardedTensor> tensors);

}  // namespace lockstep
