// The modules of a step, for captured steps (tensor/step_parts.h): their modes, their settings, which tensors they
// have.
#pragma once

#include <lockstep/nn/module.h>

namespace lockstep::nn {

/// The step that runs on this thread, if it is or will be captured, depends on the module and all below.
void use_in_step(const ModuleBase& module);

}  // namespace lockstep::nn
