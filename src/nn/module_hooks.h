// The hooks that run after a module's call.
#pragma once

#include <lockstep/nn/module.h>

#include "autograd/hooks.h"

namespace lockstep::nn {

struct ModuleBase::ForwardHooks : autograd::Hooks<ForwardHook> {};

}  // namespace lockstep::nn
