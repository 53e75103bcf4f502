// Padding with the tensor's own elements.
#pragma once

#include <lockstep/ops/layout.h>

namespace lockstep {

/// x with before[d] and behind[d] elements added along dimension d, in a mode other than constant. Differentiable.
/// Throws ShapeError if x has too few elements.
Tensor pad_border(const Tensor& x, PadMode mode, const Shape& before, const Shape& behind);

}  // namespace lockstep
