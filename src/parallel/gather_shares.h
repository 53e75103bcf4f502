// Tensors of which each device has a share, made whole on all of them.
#pragma once

#include <span>
#include <vector>

#include <lockstep/runtime/communicator.h>
#include <lockstep/tensor/tensor.h>

#include "autograd/node.h"

namespace lockstep {

/// One of equal tensors, contiguous, and what is right in it.
struct DeviceShare {
  Tensor tensor;
  autograd::Share share;
};
/// By rank. The shares together are all elements, each once.
using DividedTensor = std::vector<DeviceShare>;

/// Sends each rank's share of each tensor to all others: one exchange on the current streams, from where the elements
/// lie to where they belong, so that tensors need not lie together. Does not count as a change.
void gather_shares(Communicator& communicator, std::span<const DividedTensor> tensors);

}  // namespace lockstep
