// The names with which operations record themselves (autograd/record.h).
#pragma once

#include "autograd/record.h"

namespace lockstep {

using autograd::Gradients;
using autograd::kOutput;
using autograd::needs_grad;
using autograd::record;
using autograd::records;
using autograd::Saved;

}  // namespace lockstep
