// The leaves of a captured step (tensor/host_state.h). After a replay their gradients are as after a backward; before a
// replay the state on which backward depended must be unchanged.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep::autograd {

/// Notes that the step on this thread, if it is or will be captured, uses the leaf or its gradient.
void use_in_step(const Tensor& leaf);

}  // namespace lockstep::autograd
