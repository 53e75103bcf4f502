// The hooks that a module's calls end with.
#pragma once

#include <lockstep/nn/module.h>

#include "autograd/hooks.h"

namespace lockstep::nn {

struct ModuleBase::ForwardHooks : autograd::Hooks<ForwardHook> {};

}  // namespace lockstep::nn
