// The modules of a step, for captured steps (tensor/step_parts.h): their modes, their settings, which tensors they
// have.
#pragma once

#include <string>

#include <lockstep/nn/module.h>

namespace lockstep::nn {

/// Throws InvalidArgument if the module, which `name` leads to, was moved from.
void check_there(const ModuleBase& module, const std::string& name = {});

/// The step that runs on this thread, if it is or will be captured, depends on the module and all below.
void use_in_step(const ModuleBase& module);

}  // namespace lockstep::nn
