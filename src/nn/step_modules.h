// The modules that a captured step (a training step that is replayed as a CUDA graph) uses. Before each replay, their
// modes, settings and tensors must be as they were at the capture (tensor/host_state.h).
#pragma once

#include <string>

#include <lockstep/nn/module.h>

namespace lockstep::nn {

/// Throws InvalidArgument if the module, whose path is `name`, was moved from.
void check_not_moved_from(const ModuleBase& module, const std::string& name = {});

/// If this thread runs a step that is or will be captured, notes that the step uses the module and all below it.
void use_in_step(const ModuleBase& module);

}  // namespace lockstep::nn
