// Padding made of the elements of the tensor itself.
#pragma once

#include <lockstep/ops/layout.h>

namespace lockstep {

/// x with before[d] and behind[d] elements added along dimension d, in a mode other than constant. Differentiable.
/// Throws ShapeError where x has fewer elements than are needed.
Tensor pad_border(const Tensor& x, PadMode mode, const Shape& before, const Shape& behind);

}  // namespace lockstep
