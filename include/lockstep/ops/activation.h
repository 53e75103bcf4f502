// Activations: elementwise, floating dtypes only, else DTypeError. Differentiable.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

LOCKSTEP_API Tensor relu(const Tensor& x);  ///< max(x, 0)

}  // namespace lockstep
