// The leaf tensors of a captured step, which is replayed as a CUDA graph (tensor/host_state.h). A replay leaves in them
// the gradients that a backward would leave. Before a replay, the state of the leaves on which backward depends must be
// as it was at the capture.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep::autograd {

/// If this thread runs a step that is or will be captured, notes that the step uses the leaf or the leaf's gradient.
void use_in_step(const Tensor& leaf);

}  // namespace lockstep::autograd
