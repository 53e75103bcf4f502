// The leaves of a step, for captured steps (tensor/step_parts.h): a launch leaves gradients as backward would, and
// needs what backward looked at to be the same.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep::autograd {

/// The step that runs on this thread, if it is or will be captured, uses the leaf or its gradient.
void use_in_step(const Tensor& leaf);

}  // namespace lockstep::autograd
